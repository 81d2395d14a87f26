// Dead letters: writes that upstream has refused for good, and those that a person has dropped. Only the refused ones wait
// for a decision. Below them, what has lost a conflict of two hosts.

import { html, useEffect, useState } from "./vendor/htm-preact.js";
import { post, remove } from "./api.js";
import { Decide } from "./decide.js";
import { exportAll, idsOf, PAGE, pageOf } from "./deadlist.js";
import { clock, count, number, written } from "./format.js";
import { Conflicts } from "./lost.js";
import { Confirm, Empty, EntryName, entryName, Problem, Segments, useLoaded, useTask } from "./ui.js";

const KINDS = [["", "All"], ["refused", "Refused"], ["dropped", "Dropped"]];

// reasonOf says why a write is a dead letter.
function reasonOf(letter) {
  if (letter.kind === "dropped") return letter.error || "A person has dropped it.";
  return `Upstream has refused it: ${letter.error || `HTTP ${letter.status}`}`;
}

function Letter({ letter, changed }) {
  const [deciding, decide] = useState(false);
  const [discarding, discard] = useState(false);
  const [busy, error, retry] = useTask(() => post(`dead-letters/${letter.id}/retry`), changed);
  return html`
    <li class="letter panel" data-id=${letter.id}>
      <div class="letter-head">
        <span class=${`chip ${letter.kind}`}>${letter.kind}</span>
        <a class="entry" href=${`#/memory/${letter.namespace}/${letter.key}`}><${EntryName} of=${letter} /></a>
        <span class="note">${letter.op}${letter.author && ` by ${letter.author}`}, written ${written(letter.written_at, clock)}</span>
      </div>
      <p class="why">${reasonOf(letter)}</p>
      ${letter.superseded_by && html`<p class="note">Write ${letter.superseded_by} to this entry has settled since.</p>`}
      ${error && html`<p class="problem" role="alert">${error.message} ${error.status === 409 && "Compare the two values to decide."}</p>`}
      <div class="actions">
        <button type="button" class="primary" disabled=${busy} onClick=${() => retry()}>Retry</button>
        <button type="button" aria-expanded=${deciding} onClick=${() => decide(!deciding)}>
          ${deciding ? "Hide the values" : "Compare with what is there"}
        </button>
        <button type="button" class="danger quiet" onClick=${() => discard(true)}>Discard</button>
      </div>
      ${deciding && html`<${Decide} letter=${letter} decided=${changed} />`}
      ${discarding && html`
        <${Confirm} title="Discard this dead letter?" action="Discard" close=${() => discard(false)}
          run=${async () => { await remove(`dead-letters/${letter.id}`); changed(); }}>
          <p>The write to <b class="break">${entryName(letter)}</b> and its value are gone for good.</p>
        <//>`}
    </li>`;
}

// DiscardAll asks first, with the number of them; it stops at the first that fails.
function DiscardAll({ filter, close }) {
  const { value: ids, error } = useLoaded(() => idsOf(filter), [filter]);
  const [done, setDone] = useState(0);
  const run = async () => {
    for (const [i, id] of ids.entries()) {
      await remove(`dead-letters/${id}`);
      if (i % 20 === 0) setDone(i);
    }
  };
  if (!ids) return html`<${Problem} error=${error} />`;
  return html`
    <${Confirm} title=${`Discard ${count(ids.length, "dead letter")}?`} action="Discard all" close=${close} run=${run}>
      <p>These writes and their values are gone for good${filter.namespace && html`: all of <b class="break">${filter.namespace}</b>`}. Export them first to keep them.</p>
      ${done > 0 && html`<p class="note" aria-live="polite">${number(done)} of ${number(ids.length)} are discarded.</p>`}
    <//>`;
}

function Tools({ filter, setFilter, namespaces, changed }) {
  const [discarding, discard] = useState(false);
  const ofThese = filter.namespace ? `all of ${filter.namespace}` : "all";
  const [retrying, retryError, retryAll, clear] = useTask(() => post("dead-letters/retry", { namespace: filter.namespace }), changed);
  const [exporting, exportError, save] = useTask(() => exportAll(filter));
  useEffect(() => clear(null), [filter.namespace]);
  return html`
    <div class="tools">
      <${Segments} label="Kind" options=${KINDS} chosen=${filter.kind} choose=${(kind) => setFilter({ ...filter, kind })} />
      <input type="search" list="letter-namespaces" placeholder="Namespace" aria-label="Only of this namespace" spellcheck=${false} autocapitalize="off"
        value=${filter.namespace} onInput=${(event) => setFilter({ ...filter, namespace: event.target.value.trim() })} />
      <datalist id="letter-namespaces">${namespaces.map((n) => html`<option key=${n} value=${n} />`)}</datalist>
      <span class="spring"></span>
      <button type="button" disabled=${retrying} onClick=${() => retryAll()}>Retry ${ofThese} that upstream refused</button>
      <button type="button" disabled=${exporting} onClick=${() => save()}>${exporting ? "Exporting…" : "Export"}</button>
      <button type="button" class="danger quiet" onClick=${() => discard(true)}>Discard ${ofThese}</button>
      <${Problem} error=${retryError ?? exportError} />
      ${discarding && html`<${DiscardAll} filter=${filter} close=${() => { discard(false); changed(); }} />`}
    </div>`;
}

// useLetters reads the first pages of the list, and again when a write has become a dead letter. The
// number of letters alone would not tell that one has gone and another come.
function useLetters(daemon, filter) {
  const [pages, setPages] = useState(1);
  const [kept, keep] = useState(null);
  const { value, error, again } = useLoaded(async (signal) => {
    const letters = [];
    let next = null;
    for (let page = 0; page < pages && (page === 0 || next); page++) {
      const rows = await pageOf(next, PAGE, signal);
      letters.push(...rows);
      next = rows.length === PAGE ? rows.at(-1).id : null;
    }
    return { letters, next };
  }, [pages]);
  useEffect(() => {
    if (value) keep(value);
  }, [value]);
  const { dead_letters: total, last_seq: newest } = daemon.status ?? {};
  useEffect(() => again(), [total, newest]);
  const shown = value ?? kept;
  const fits = (l) => (!filter.kind || l.kind === filter.kind) && (!filter.namespace || l.namespace === filter.namespace);
  return { all: shown?.letters, letters: shown?.letters.filter(fits), next: shown?.next, error, again, more: () => setPages((n) => n + 1) };
}

export function DeadLetters({ daemon }) {
  const [filter, setFilter] = useState({ kind: "", namespace: "" });
  const { all, letters, next, error, again, more } = useLetters(daemon, filter);
  const changed = () => {
    again();
    daemon.refresh();
  };
  const namespaces = [...new Set(all?.map((l) => l.namespace))].sort();
  return html`
    <section aria-labelledby="dead">
      <header class="title"><h2 id="dead">Dead letters</h2><p class="note">Writes that upstream has refused wait for your decision.</p></header>
      ${all?.length > 0 && html`<${Tools} filter=${filter} setFilter=${setFilter} namespaces=${namespaces} changed=${changed} />`}
      <${Problem} error=${error} />
      ${all?.length === 0 && html`<div class="panel"><${Empty} title="There are no dead letters."><p>Every write is settled or pending.</p><//></div>`}
      ${all?.length > 0 && letters.length === 0 && html`<div class="panel"><${Empty} title=${next ? "None of those read so far fits." : "None fits."} /></div>`}
      <ul class="letters">${letters?.map((l) => html`<${Letter} key=${l.id} letter=${l} changed=${changed} />`)}</ul>
      ${next && html`<button type="button" class="more" onClick=${more}>More</button>`}
    </section>
    <${Conflicts} daemon=${daemon} />`;
}
