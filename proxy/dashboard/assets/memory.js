// The browser of namespaces, entries and values. The address names what is open:
// #/memory/NAMESPACE/KEY.

import { html, useEffect, useState } from "./vendor/htm-preact.js";
import { get } from "./api.js";
import { NewEntry } from "./editor.js";
import { Entry } from "./entry.js";
import { ago, bytes, count, number } from "./format.js";
import { Rewind } from "./rewind.js";
import { Empty, Problem, useChanges, useLoaded, useSettled } from "./ui.js";

// PAGE is how many rows come at a time: few enough for a phone, whatever there is.
const PAGE = 100;

// MOST is how many entries one question lists.
const MOST = 10_000;

// useMost is the number of rows that a list shows, and a function that adds a page.
function useMost(subject) {
  const [most, setMost] = useState(PAGE);
  useEffect(() => setMost(PAGE), [subject]);
  return [most, () => setMost((n) => n + PAGE)];
}

// readNamespaces reads as many namespaces, page by page.
async function readNamespaces(match, most, signal) {
  let rows = [];
  let next = null;
  do {
    const page = await get("namespaces", { match, limit: PAGE, after: next }, { signal });
    rows = [...rows, ...page.namespaces];
    next = page.next;
  } while (next && rows.length < most);
  return { rows, next };
}

// readEntries reads the entries, the newest first. Of more than MOST, it reads those whose keys are the first.
async function readEntries(namespace, prefix, signal) {
  const { entries, next, complete } = await get("entries", { namespace, prefix, limit: MOST }, { signal });
  return { rows: entries.sort((a, b) => b.updated_at - a.updated_at), next, complete };
}

const Search = ({ label, value, input }) => html`
  <input type="search" placeholder=${label} aria-label=${label} value=${value} spellcheck=${false} autocomplete="off" autocapitalize="off"
    onInput=${(event) => input(event.target.value.trim())} />`;

const More = ({ show }) => html`<button type="button" class="more" onClick=${show}>More</button>`;

function Namespaces({ chosen }) {
  const [match, setMatch] = useState("");
  const wanted = useSettled(match);
  const [most, more] = useMost(wanted);
  const list = useLoaded((signal) => readNamespaces(wanted, most, signal), [wanted]);
  const none = list.value?.rows.length === 0;
  return html`
    <section class="panel pane namespaces" aria-label="Namespaces">
      <header><h2>Namespaces</h2></header>
      <${Search} label="Find a namespace" value=${match} input=${setMatch} />
      <${Problem} error=${list.error} />
      ${none && html`<${Empty} title=${wanted ? `No namespace matches “${wanted}”.` : "No namespace is known yet."} />`}
      <ul class="rows">${list.value?.rows.map((n) => html`
        <li key=${n.namespace}>
          <a href=${`#/memory/${n.namespace}`} aria-current=${n.namespace === chosen ? "true" : null}>
            <span class="name">${n.namespace}</span>
            <span class="note">${n.sealed && "sealed · "}${n.entries_at_least && "more than "}${count(n.entries, "entry", "entries")}${n.pending > 0 && html` · <b>${number(n.pending)} pending</b>`}</span>
            <span class="figure">${bytes(n.bytes)}</span>
          </a>
        </li>`)}</ul>
      ${list.value?.next && html`<${More} show=${() => { more(); list.again(); }} />`}
    </section>`;
}

function Entries({ daemon, namespace, chosen }) {
  const [prefix, setPrefix] = useState("");
  const [doing, act] = useState(null);
  const wanted = useSettled(prefix);
  const [most, more] = useMost(wanted);
  const list = useLoaded((signal) => readEntries(namespace, wanted, signal), [namespace, wanted]);
  const { rows, next, complete } = list.value ?? { rows: [], complete: true };
  const shown = rows.slice(0, Math.max(most, rows.findIndex((e) => e.key === chosen) + 1));
  const all = shown.length === rows.length;
  useEffect(() => { // a link may lead to an entry far down
    document.querySelector(".entries [aria-current]")?.scrollIntoView({ block: "nearest" });
  }, [chosen, list.value != null]);
  useChanges(daemon, namespace, null, list.again);
  return html`
    <section class="panel pane entries" aria-label=${`Entries of ${namespace}`}>
      <header>
        <a class="back" href="#/memory" aria-label="Back to the namespaces">‹</a>
        <h2>${namespace}</h2>
        <button type="button" onClick=${() => act("rewind")}>Undo…</button>
        <button type="button" onClick=${() => act("new")}>New entry</button>
      </header>
      <${Search} label="Find keys that begin with" value=${prefix} input=${setPrefix} />
      <${Problem} error=${list.error} />
      ${list.value && rows.length === 0 && html`<${Empty} title=${wanted ? `No key begins with “${wanted}”.` : "No entry is known here."} />`}
      <ul class="rows">${shown.map((e) => html`
        <li key=${e.key}>
          <a href=${`#/memory/${namespace}/${e.key}`} aria-current=${e.key === chosen ? "true" : null} class=${e.op === "delete" ? "deleted" : ""}>
            <span class="name">${e.key}</span>
            <span class="note"><i class=${`dot ${e.state}`} aria-hidden="true"></i>${e.op === "delete" ? "delete " : ""}${e.state}${e.updated_at != null && ` · ${ago(e.updated_at)}`}</span>
            <span class="figure">${e.op === "delete" ? "" : bytes(e.list_bytes)}</span>
          </a>
        </li>`)}</ul>
      ${!all && html`<${More} show=${more} />`}
      ${all && next && html`<p class="note">These are the first ${number(MOST)} keys by name. A prefix finds the others.</p>`}
      ${all && !next && !complete && html`
        <p class="note">Upstream may hold more keys than are known here: it lists 1,000 at most.</p>`}
      ${doing === "new" && html`<${NewEntry} namespace=${namespace} close=${() => act(null)} />`}
      ${doing === "rewind" && html`<${Rewind} daemon=${daemon} namespace=${namespace} close=${() => act(null)} />`}
    </section>`;
}

export function Memory({ daemon, path: [namespace, key] }) {
  const depth = key ? "entry" : namespace ? "entries" : "namespaces";
  return html`
    <div class=${`memory at-${depth}`}>
      <${Namespaces} chosen=${namespace} />
      ${namespace
        ? html`<${Entries} key=${namespace} daemon=${daemon} namespace=${namespace} chosen=${key} />`
        : html`<section class="panel pane entries hollow"><${Empty} title="Choose a namespace to see its entries." /></section>`}
      ${key
        ? html`<${Entry} key=${`${namespace}/${key}`} daemon=${daemon} namespace=${namespace} name=${key} />`
        : html`<section class="panel pane value hollow"><${Empty} title="Choose an entry to see its value." /></section>`}
    </div>`;
}
