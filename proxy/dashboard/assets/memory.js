// The browser of namespaces, entries and values. The address names what is open:
// #/memory/NAMESPACE/KEY.

import { html, useEffect, useRef, useState } from "./vendor/htm-preact.js";
import { get } from "./api.js";
import { NewEntry } from "./editor.js";
import { Entry } from "./entry.js";
import { ago, bytes, count, number } from "./format.js";
import { Rewind } from "./rewind.js";
import { Empty, Problem, Segments, useChanges, useLoaded, useSettled } from "./ui.js";

// PAGE is how many rows come at a time: few enough for a phone, whatever there is.
const PAGE = 100;

// FOUND_WITHIN bounds the pages that are read to find a row that an address names.
const FOUND_WITHIN = 20;

// MOST is how many entries one question lists.
const MOST = 10_000;

// usePages reads a list page by page, as far as the chosen key. Read again, it has as many pages as before.
function usePages(path, parameters, rows, { newest = false, chosen = null } = {}) {
  const [pages, setPages] = useState(1);
  const subject = JSON.stringify([parameters, newest]);
  useEffect(() => setPages(1), [subject]);
  const list = useLoaded(async (signal) => {
    if (newest) {
      const { [rows]: known, ...rest } = await get(path, { ...parameters, limit: MOST }, { signal });
      known.sort((a, b) => b.updated_at - a.updated_at);
      const shown = Math.max(pages * PAGE, known.findIndex((row) => row.key === chosen) + 1);
      return { rows: known.slice(0, shown), next: known[shown] ?? null, complete: rest.complete && !rest.next };
    }
    const all = [];
    let last = { next: null };
    const isFound = () => chosen == null || all.some((row) => row.key === chosen);
    for (let page = 0; (page < pages || (page < FOUND_WITHIN && !isFound())) && (page === 0 || last.next); page++) {
      last = await get(path, { ...parameters, limit: PAGE, after: last.next }, { signal });
      all.push(...last[rows]);
    }
    return { rows: all, next: last.next, complete: last.complete ?? true };
  }, [subject, pages]);
  const kept = useRef({});
  if (list.value) kept.current = { subject, value: list.value };
  const value = list.value ?? (kept.current.subject === subject ? kept.current.value : undefined);
  return { ...list, value, more: () => setPages((n) => n + 1) };
}

const Search = ({ label, value, input }) => html`
  <input type="search" placeholder=${label} aria-label=${label} value=${value} spellcheck=${false} autocomplete="off" autocapitalize="off"
    onInput=${(event) => input(event.target.value.trim())} />`;

const More = ({ list }) => list.value?.next && html`<button type="button" class="more" onClick=${list.more}>More</button>`;

function Namespaces({ chosen }) {
  const [match, setMatch] = useState("");
  const wanted = useSettled(match);
  const list = usePages("namespaces", { match: wanted }, "namespaces");
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
      <${More} list=${list} />
    </section>`;
}

const ORDERS = [["name", "By name"], ["newest", "Newest"]];

function Entries({ daemon, namespace, chosen }) {
  const [prefix, setPrefix] = useState("");
  const [order, setOrder] = useState("name");
  const [doing, act] = useState(null);
  const wanted = useSettled(prefix);
  const list = usePages("entries", { namespace, prefix: wanted }, "entries", { newest: order === "newest", chosen });
  useEffect(() => { // a link may lead to an entry far down
    document.querySelector(".entries [aria-current]")?.scrollIntoView({ block: "nearest" });
  }, [chosen, list.value != null]);
  useChanges(daemon, namespace, null, list.again);
  const none = list.value?.rows.length === 0;
  return html`
    <section class="panel pane entries" aria-label=${`Entries of ${namespace}`}>
      <header>
        <a class="back" href="#/memory" aria-label="Back to the namespaces">‹</a>
        <h2>${namespace}</h2>
        <button type="button" onClick=${() => act("rewind")}>Undo…</button>
        <button type="button" onClick=${() => act("new")}>New entry</button>
      </header>
      <${Search} label="Find keys that begin with" value=${prefix} input=${setPrefix} />
      <${Segments} label="Order" options=${ORDERS} chosen=${order} choose=${setOrder} />
      <${Problem} error=${list.error} />
      ${none && html`<${Empty} title=${wanted ? `No key begins with “${wanted}”.` : "No entry is known here."} />`}
      <ul class="rows">${list.value?.rows.map((e) => html`
        <li key=${e.key}>
          <a href=${`#/memory/${namespace}/${e.key}`} aria-current=${e.key === chosen ? "true" : null} class=${e.op === "delete" ? "deleted" : ""}>
            <span class="name">${e.key}</span>
            <span class="note"><i class=${`dot ${e.state}`} aria-hidden="true"></i>${e.op === "delete" ? "delete " : ""}${e.state}${e.updated_at != null && ` · ${ago(e.updated_at)}`}</span>
            <span class="figure">${e.op === "delete" ? "" : bytes(e.list_bytes)}</span>
          </a>
        </li>`)}</ul>
      <${More} list=${list} />
      ${list.value && !list.value.next && !list.value.complete && html`
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
