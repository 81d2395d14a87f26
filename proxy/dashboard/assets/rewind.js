// A namespace as it was at a time: what an undo of the writes since then would do, for a person to see, and the
// undo itself. An entry that changes after a person has seen it is left as it is.

import { html, useEffect, useRef, useState } from "./vendor/htm-preact.js";
import { get, post } from "./api.js";
import { count, moment, number } from "./format.js";
import { reach } from "./history.js";
import { shownKey } from "./keys.js";
import { sentence } from "./sentence.js";
import { Dialog, Problem, Segments, useLoaded, useSettled, useTask } from "./ui.js";

const AGO = [[600, "10 minutes ago"], [3600, "An hour ago"], [86_400, "A day ago"]];
const NAMED = 10; // entries that a list names
const KEPT = 1000; // entries left that the page keeps, as the daemon's preview does

const COUNTS = ["restored", "deleted", "same", "left"];
const NOTHING = { restored: 0, deleted: 0, same: 0, left: 0, left_entries: [], next: null };

const entries = (n) => count(n, "entry", "entries");
const now = () => Date.now() / 1000;

// local is a time as the browser's own field for times has it, in the person's zone.
function local(at) {
  const then = new Date(at * 1000);
  return new Date(then - then.getTimezoneOffset() * 60_000).toISOString().slice(0, 19);
}

// preview says what an undo would do. Where several programs have written, a person has to say whose writes.
async function preview(namespace, before, whose, signal) {
  const ask = (of) => get("undo/namespace", { namespace, before, ...of }, { signal });
  if (!(before < now())) throw new Error("Choose a time that is over.");
  try {
    return await ask(whose);
  } catch (refusal) {
    if (refusal.status !== 409) throw refusal;
    return { ...(await ask({ all_authors: true })), undecided: true };
  }
}

// useRewinding undoes page by page. After an error it goes on where it was, and it stops with the dialog.
function useRewinding(namespace, seen) {
  const [done, setDone] = useState(null);
  const closed = useRef(false);
  useEffect(() => () => { closed.current = true; }, []);
  const [busy, error, go] = useTask(async () => {
    const of = { namespace, before: seen.before, as_of: seen.as_of, ...(seen.author == null ? { all_authors: true } : { author: seen.author }) };
    let sum = done ?? NOTHING;
    do {
      const page = await post("undo/namespace", { ...of, after: sum.next });
      const left = [...sum.left_entries, ...page.left_entries].slice(0, KEPT);
      sum = { left_entries: left, next: page.next, ...Object.fromEntries(COUNTS.map((name) => [name, sum[name] + page[name]])) };
      if (!closed.current) setDone(sum);
    } while (sum.next && !closed.current);
  });
  return { done, finished: done?.next === null, busy, error, go };
}

function When({ at, choose }) {
  return html`
    <${Segments} label="Go back to" options=${AGO} chosen=${at.ago} choose=${(ago) => choose({ ago, before: now() - ago })} />
    <label>The time to go back to<input type="datetime-local" step="1" value=${local(at.before)}
      onInput=${({ target }) => target.value && choose({ before: new Date(target.value).getTime() / 1000 })} /></label>`;
}

function Whose({ authors, chosen, choose }) {
  const options = [
    ...Object.entries(authors).map(([author, n]) => [{ author }, `${author || "Programs without a name"} (${entries(n)})`]),
    [{ all_authors: true }, "Everybody, on other hosts too"],
  ];
  const isChosen = (of) => of.author === chosen.author && of.all_authors === chosen.all_authors;
  return html`
    <div role="radiogroup" aria-label="Whose writes">
      <p><b>Whose writes?</b></p>
      ${options.map(([of, title]) => html`
        <label key=${title} class="choice"><input type="radio" name="whose" checked=${isChosen(of)} onChange=${() => choose(of)} />${title}</label>`)}
    </div>`;
}

// Named lists the first of some entries, each with what is said of it.
const Named = ({ label, rows, of }) => rows.length > 0 && html`
  <ul class="named" aria-label=${label}>
    ${rows.slice(0, NAMED).map(([key, text]) => html`<li key=${key}><b class="break">${shownKey(key)}</b> <span class="note">${text}</span></li>`)}
    ${of > NAMED && html`<li class="note">and ${number(of - NAMED)} more</li>`}
  </ul>`;

const Left = ({ of }) => html`<${Named} label="Left as they are" rows=${of.left_entries.map((e) => [e.key, `stays: ${e.why}`])} of=${of.left} />`;

const fate = (change) => (change.op === "delete" ? "goes: it is new since then" : `comes back: ${count(change.bytes, "character")}`);

// together makes one sentence of what is said of some entries, where there are any.
const together = (counted) => sentence(counted.filter(([n]) => n > 0).map(([, text]) => text).join(", "));

function Seen({ seen }) {
  const changes = seen.restored + seen.deleted;
  return html`
    <p><b>${changes > 0 ? `As at ${moment(seen.before)}: ` : `There is nothing to undo since ${moment(seen.before)}. `}</b>
      ${together([
        [seen.restored, `${entries(seen.restored)} would come back`],
        [seen.deleted, `${entries(seen.deleted)} that ${seen.deleted === 1 ? "is" : "are"} new since then would go`],
        [seen.same, `${entries(seen.same)} written since ${seen.same === 1 ? "is" : "are"} as then anyway`],
        [seen.left, `${entries(seen.left)} would be left as ${seen.left === 1 ? "it is" : "they are"}`],
      ])}</p>
    <${Named} label="What would change" rows=${seen.changes.map((c) => [c.key, fate(c)])} of=${changes} />
    <${Left} of=${seen} />`;
}

function Done({ done, finished, total }) {
  const handled = COUNTS.reduce((sum, name) => sum + done[name], 0);
  return html`
    ${!finished && html`<progress max=${total} value=${handled} aria-label="The undo"></progress>`}
    <p role="status"><b>${finished ? "Done." : `${number(handled)} of ${entries(total)} so far.`}</b>${" "}
      ${together([
        [done.restored, `${entries(done.restored)} came back`],
        [done.deleted, `${entries(done.deleted)} that ${done.deleted === 1 ? "was" : "were"} new went`],
        [done.left, `${entries(done.left)} stayed as ${done.left === 1 ? "it is" : "they are"}`],
      ])}
      ${finished && " Upstream gets that as soon as it takes it."}</p>
    <${Left} of=${done} />`;
}

export function Rewind({ daemon, namespace, close }) {
  const [at, setAt] = useState({ ago: AGO[0][0], before: now() - AGO[0][0] });
  const [whose, setWhose] = useState({});
  const [authors, setAuthors] = useState({});
  const before = useSettled(at.before);
  const { value: seen, error } = useLoaded((signal) => preview(namespace, before, whose, signal), [namespace, before, whose]);
  const { done, finished, busy, error: failure, go } = useRewinding(namespace, seen);
  useEffect(() => { // they stay while the next preview is on its way
    if (seen) setAuthors(seen.authors);
  }, [seen]);
  const choose = (next) => {
    setAt(next);
    setWhose({});
  };
  const older = reach(daemon.status, at.before * 1000);
  const chosen = seen?.author != null ? { author: seen.author } : whose;
  const asking = !busy && !done;
  const nothing = !seen || seen.undecided || seen.restored + seen.deleted === 0;
  return html`
    <${Dialog} title=${`Undo the writes in ${namespace} since a time`} close=${close} wide=${true}>
      ${asking && html`<${When} at=${at} choose=${choose} />`}
      ${asking && (Object.keys(authors).length > 0 || seen?.left > 0) && html`<${Whose} authors=${authors} chosen=${chosen} choose=${setWhose} />`}
      ${asking && older && html`<p class="note">${older} Entries of which nothing older is known would be left as they are.</p>`}
      <${Problem} error=${error} />
      ${!seen && !error && html`<p class="note">Looking…</p>`}
      ${seen && !done && (seen.undecided ? html`<p><b>Several programs have written here since then. Choose whose writes to undo.</b></p>` : html`<${Seen} seen=${seen} />`)}
      ${done && html`<${Done} done=${done} finished=${finished} total=${COUNTS.reduce((sum, name) => sum + seen[name], 0)} />`}
      <${Problem} error=${failure} />
      <footer>
        <button type="button" onClick=${close}>${finished ? "Close" : busy ? "Stop" : "Cancel"}</button>
        ${!finished && html`<button type="button" class="danger" disabled=${busy || nothing} onClick=${() => go()}>${busy ? "One moment…" : done ? "Go on" : "Undo these writes"}</button>`}
      </footer>
    <//>`;
}
