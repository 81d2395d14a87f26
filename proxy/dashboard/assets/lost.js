// What has lost a conflict of two hosts: the later write stays, and the other one is in its entry's history, where a person
// compares the two and brings that one back.

import { html, useEffect, useState } from "./vendor/htm-preact.js";
import { get } from "./api.js";
import { clock } from "./format.js";
import { History, nameOf } from "./history.js";
import { EntryName, Problem, useLoaded } from "./ui.js";

const PAGE = 20;

const writerOf = (lost) => (lost.here ? "this host" : "another host");

function Lost({ lost, compare }) {
  return html`
    <li class="letter lost panel">
      <div class="letter-head">
        <span class="chip">lost</span>
        <a class="entry" href=${`#/memory/${lost.namespace}/${lost.key}`}><${EntryName} of=${lost} /></a>
        <span class="note">${lost.op}${lost.author && ` by ${lost.author}`}, written ${clock(lost.updated_at)}</span>
      </div>
      <p class="why">Time has decided this conflict at ${clock(lost.lost_at)}: the write of ${writerOf(lost)} is the earlier one.</p>
      <div class="actions"><button type="button" onClick=${compare}>Compare</button></div>
    </li>`;
}

// Conflicts shows what has lost, the last one first; nothing if nothing has.
export function Conflicts({ daemon }) {
  const [most, setMost] = useState(PAGE);
  const [kept, keep] = useState(null); // what is shown while it is read again
  const [compared, compare] = useState(null);
  const { value, error, again } = useLoaded((signal) => get("revisions/lost", { limit: most }, { signal }), [most]);
  const { conflicts, last_seq: newest } = daemon.status ?? {};
  useEffect(() => {
    if (value) keep(value);
  }, [value]);
  useEffect(() => again(), [conflicts, newest]);
  const shown = value ?? kept;
  if (!shown?.lost.length) return html`<${Problem} error=${error} />`;
  return html`
    <section class="conflicts" aria-labelledby="conflicts">
      <header class="title"><h2 id="conflicts">Conflicts</h2><p class="note">Of two hosts' writes to one entry the later one stays. The other is in the entry's history: compare them there, and bring that one back if you want it.</p></header>
      <${Problem} error=${error} />
      <ul class="letters">${shown.lost.map((l) => html`<${Lost} key=${l.seq} lost=${l} compare=${() => compare(l)} />`)}</ul>
      ${shown.next && html`<button type="button" class="more" onClick=${() => setMost((n) => n + PAGE)}>More</button>`}
      ${compared && html`<${History} daemon=${daemon} namespace=${compared.namespace} name=${compared.key} at=${nameOf(compared)} close=${() => compare(null)} />`}
    </section>`;
}
