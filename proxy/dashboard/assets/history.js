// The versions of an entry, the newest first: what has changed since one of them, and an undo to it. An undo is a
// write as any other, on the condition that it replaces what the page has shown.

import { html, useEffect, useState } from "./vendor/htm-preact.js";
import { readVersions, undo } from "./api.js";
import { Changes } from "./compare.js";
import { ago, clock, count, instant, moment } from "./format.js";
import { sentence } from "./sentence.js";
import { Dialog, Empty, entryName, Problem, useChanges, useLoaded, useTask } from "./ui.js";

const BEGINNING = 120; // characters of a value that a row shows

const STATES = {
  pending: "pending",
  settled: "settled",
  superseded: "overwritten",
  dead: "refused by upstream, or dropped by a person",
  lost: "lost a conflict: the other host's write is later",
  shown: "read from upstream",
  gone: "upstream holds it no longer",
  absent: "upstream has none",
  unsealed: "from before the namespace was sealed, when anybody could write it",
};

// reach says that versions are missing, and of what time; false if none is, or was until a time.
export const reach = (status, until = Infinity) => {
  const since = instant(status?.history?.since);
  return since != null && since < until && `Versions up to ${clock(status.history.since)} were removed for room.`;
};

// nameOf is how an undo names a version. The present one may have no name.
export const nameOf = (v) => String(v?.revision ?? (v?.seq != null ? `w${v.seq}` : ""));

const sizeOf = (v) => (v.value == null ? "deleted" : count(v.bytes, "character"));

function writerOf(v) {
  if (v.here) return `by ${v.author || "a program without a name"} on this host`;
  return v.author || v.host ? `by ${v.author || "a program without a name"} on ${v.host || "another host"}` : "by an unknown writer";
}

const GAPS = {
  forgotten: "The one before was, or may have been, removed for room.",
  damaged: "The one before is damaged.",
};

const stateOf = (v) => STATES[v.state] ?? v.state;

function Version({ version: v, present, chosen, choose }) {
  return html`
    <li class=${`version ${v.state}`}>
      <button type="button" class="quiet" aria-pressed=${chosen} onClick=${choose}>
        <span><b>${moment(v.updated_at)}</b> <span class="note">${ago(v.updated_at)}, ${sizeOf(v)}</span>${present && html` <b class="chip">the present one</b>`}</span>
        <span class="note">${writerOf(v)} · ${stateOf(v)}</span>
        ${v.value && html`<span class="beginning">${v.value.slice(0, BEGINNING)}</span>`}
      </button>
      ${v.gap && html`<p class="note">${GAPS[v.gap] ?? v.gap}</p>`}
    </li>`;
}

// Since is what has changed since a version.
function Since({ version: v, present, busy, undoTo }) {
  const same = v.value === present.value;
  return html`
    <section class="since" aria-label="What has changed since">
      <header>
        <h3>${same ? "As the present one" : `From ${moment(v.updated_at)} to the present one`}</h3>
        ${!same && html`<span class="legend" aria-hidden="true"><del>− removed</del> <ins>+ added</ins></span>`}
        ${!same && nameOf(v) && html`<button type="button" disabled=${busy} onClick=${() => undoTo(v)}>Undo to this version</button>`}
      </header>
      ${v.value == null && html`<p class="note">There was no entry then: it was deleted.</p>`}
      ${present.value == null && !same && html`<p class="note">There is no entry now: it was deleted.</p>`}
      <${Changes} before=${v.value} after=${present.value} label=${`What has changed since ${moment(v.updated_at)}`} />
    </section>`;
}

// Versions shows one of them against the present one: at first the one that at names, or the one before it.
function Versions({ versions, at, busy, undoTo }) {
  const [name, choose] = useState(at);
  const chosen = versions.find((v) => nameOf(v) === name) ?? versions.slice(1).find((v) => !v.apart) ?? versions[1] ?? versions[0];
  const back = (v) => { // it stays chosen: a double click is no undo of the undo
    choose(nameOf(v));
    undoTo(v);
  };
  return html`
    <ol class="versions" aria-label="Versions, the newest first">
      ${versions.map((v, i) => html`<${Version} key=${nameOf(v)} version=${v} present=${i === 0} chosen=${v === chosen} choose=${() => choose(nameOf(v))} />`)}
    </ol>
    ${versions.length === 1 && html`<p class="note">No other version of it is known here.</p>`}
    <${Since} version=${chosen} present=${versions[0]} busy=${busy} undoTo=${back} />`;
}

export function History({ daemon, namespace, name, at = null, close }) {
  const { value: newest, error, again } = useLoaded((signal) => readVersions(namespace, name, at, signal), [namespace, name]);
  const [shown, show] = useState(null);
  const [said, say] = useState("");
  useChanges(daemon, namespace, name, again);
  const later = newest && shown && newest.asked > shown.asked;
  useEffect(() => { // what becomes of the versions shows at once; a write of somebody else's, once it is wanted
    if (newest && (!shown || (later && newest.tag === shown.tag))) show(newest);
  }, [newest]);
  const [busy, problem, undoTo] = useTask(async (version) => {
    say("");
    try {
      await undo(namespace, name, nameOf(version), shown.tag);
      say(`Done: the entry is as it was at ${moment(version.updated_at)}. Upstream gets that as soon as it takes it.`);
    } catch (refusal) {
      if (refusal.status !== 412) throw refusal;
      throw new Error("Somebody has written this entry since it was shown here, so nothing is undone. Now the list has that version, too: decide again.");
    } finally {
      show(await readVersions(namespace, name, at));
    }
  });
  const older = !daemon.status?.upstream.url.startsWith("nats:") && reach(daemon.status); // there, the bucket keeps the versions
  return html`
    <${Dialog} title=${`History of ${entryName({ namespace, key: name })}`} close=${close} wide=${true}>
      ${error?.status === 404 ? html`<${Empty} title=${sentence(error.message)} />` : html`<${Problem} error=${error} />`}
      ${!shown && !error && html`<p class="note">Looking…</p>`}
      ${later && newest.tag !== shown.tag && !busy && html`
        <p class="note" role="status">The entry has changed since. <button type="button" onClick=${() => show(newest)}>Show how it is now</button></p>`}
      <p role="status">${said}</p>
      <${Problem} error=${problem} />
      ${shown?.why && html`<p class="note">${sentence(`This is not all: ${shown.why}`)}</p>`}
      ${shown && html`<${Versions} versions=${shown.versions} at=${at} busy=${busy} undoTo=${undoTo} />`}
      ${older && html`<p class="note">${older} Older ones than these may be missing.</p>`}
    <//>`;
}
