// The browser of namespaces, entries and values. The address names what is open:
// #/memory/NAMESPACE/KEY.

import { html, useEffect, useState } from "./vendor/htm-preact.js";
import { get } from "./api.js";
import { NewEntry } from "./editor.js";
import { Entry } from "./entry.js";
import { ago, bytes, count, number } from "./format.js";
import { begins, prefixesOf, shownKey } from "./keys.js";
import { Rewind } from "./rewind.js";
import { stateOf, troubleOf } from "./states.js";
import { Empty, Problem, REREAD_AFTER, useChanges, useLoaded, useSettled } from "./ui.js";

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
  const pages = await Promise.all(prefixesOf(prefix).map((one) => get("entries", { namespace, prefix: one, limit: MOST }, { signal })));
  const rows = pages.flatMap(({ entries }) => entries).filter((e) => begins(e.key, prefix)).sort((a, b) => b.updated_at - a.updated_at);
  return { rows, next: pages.some(({ next }) => next), complete: pages.every(({ complete }) => complete) };
}

// useNamespaces keeps a list of namespaces up to date: the status has the newest of those that need attention, and the
// list is read again when another one does.
function useNamespaces(daemon, read, inputs) {
  const { namespaces: urgent = [], upstream } = daemon.status ?? {};
  const list = useLoaded(read, inputs);
  const troubled = JSON.stringify(urgent.map((n) => [n.namespace, troubleOf(n)?.word]).filter(([, word]) => word));
  const { last_seq: newest } = daemon.status ?? {};
  const asked = useSettled(`${troubled} ${newest}`, REREAD_AFTER);
  const [first] = useState(asked);
  useEffect(() => {
    if (asked !== first) list.again();
  }, [asked]);
  const known = new Map(urgent.map((n) => [n.namespace, n]));
  const rows = list.value?.rows.map((n) => ({ ...n, ...known.get(n.namespace) })).map((n) => ({ ...n, trouble: troubleOf(n, upstream?.watch) }));
  return { ...list, rows };
}

// readNamespace finds one namespace among those whose names have its name in them.
async function readNamespace(namespace, signal) {
  let next = null;
  do {
    const page = await get("namespaces", { match: namespace, limit: PAGE, after: next }, { signal });
    const rows = page.namespaces.filter((n) => n.namespace === namespace);
    if (rows.length > 0) return { rows };
    next = page.next;
  } while (next);
  return { rows: [{ namespace }] };
}

const Search = ({ label, value, input }) => html`
  <input type="search" placeholder=${label} aria-label=${label} value=${value} spellcheck=${false} autocomplete="off" autocapitalize="off"
    onInput=${(event) => input(event.target.value.trim())} />`;

const More = ({ show }) => html`<button type="button" class="more" onClick=${show}>More</button>`;

function Namespaces({ daemon, chosen }) {
  const [match, setMatch] = useState("");
  const wanted = useSettled(match);
  const [most, more] = useMost(wanted);
  const list = useNamespaces(daemon, (signal) => readNamespaces(wanted, most, signal), [wanted]);
  const none = list.rows?.length === 0;
  return html`
    <section class="panel pane namespaces" aria-label="Namespaces">
      <header><h2>Namespaces</h2></header>
      <${Search} label="Find a namespace" value=${match} input=${setMatch} />
      <${Problem} error=${list.error} />
      ${none && html`<${Empty} title=${wanted ? `No namespace matches “${wanted}”.` : "No namespace is known yet."} />`}
      <ul class="rows">${list.rows?.map((n) => html`
        <li key=${n.namespace} class=${n.trouble?.tone ?? ""}>
          <a href=${`#/memory/${n.namespace}`} aria-current=${n.namespace === chosen ? "true" : null}>
            <span class="name">${n.namespace}</span>
            <span class="note">${n.trouble && html`<b class="trouble"><i class=${`dot ${n.trouble.tone}`} aria-hidden="true"></i>${n.trouble.word}</b> · `}${n.sealed && "sealed · "}${n.entries_at_least && "more than "}${count(n.entries, "entry", "entries")}${n.pending > 0 && html` · <b>${number(n.pending)} pending</b>`}</span>
            <span class="figure">${n.bytes > 0 && bytes(n.bytes)}</span>
          </a>
        </li>`)}</ul>
      ${list.value?.next && html`<${More} show=${() => { more(); list.again(); }} />`}
    </section>`;
}

function Row({ of: e, namespace, chosen, trouble }) {
  const { text, tone } = stateOf(e, trouble);
  return html`
    <li>
      <a href=${`#/memory/${namespace}/${e.key}`} aria-current=${e.key === chosen ? "true" : null} class=${e.op === "delete" ? "deleted" : ""}>
        <span class="name">${shownKey(e.key)}</span>
        <span class="note"><i class=${`dot ${tone}`} aria-hidden="true"></i>${e.op === "delete" ? "delete " : ""}${text}${e.updated_at != null && ` · ${ago(e.updated_at)}`}</span>
        <span class="figure">${e.op === "delete" ? "" : bytes(e.list_bytes)}</span>
      </a>
    </li>`;
}

function Entries({ daemon, namespace, chosen, trouble }) {
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
      <ul class="rows">${shown.map((e) => html`<${Row} key=${e.key} of=${e} namespace=${namespace} chosen=${chosen} trouble=${trouble} />`)}</ul>
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
  const open = useNamespaces(daemon, (signal) => (namespace ? readNamespace(namespace, signal) : Promise.resolve({ rows: [] })), [namespace]).rows?.[0];
  return html`
    <div class=${`memory at-${depth}`}>
      <${Namespaces} daemon=${daemon} chosen=${namespace} />
      ${namespace
        ? html`<${Entries} key=${namespace} daemon=${daemon} namespace=${namespace} chosen=${key} trouble=${open?.trouble} />`
        : html`<section class="panel pane entries hollow"><${Empty} title="Choose a namespace to see its entries." /></section>`}
      ${key
        ? html`<${Entry} key=${`${namespace}/${key}`} daemon=${daemon} namespace=${namespace} name=${key} of=${open} />`
        : html`<section class="panel pane value hollow"><${Empty} title="Choose an entry to see its value." /></section>`}
    </div>`;
}
