// The drill: a rehearsed outage of the running daemon, in a namespace of the drill's own, and the
// audit of what became of every write. The daemon tells it as it goes, one event a line.

import { html, useEffect, useRef, useState } from "./vendor/htm-preact.js";
import { stream } from "./api.js";
import { clock, count, duration, microseconds, number } from "./format.js";
import { Problem, useTask } from "./ui.js";

const milliseconds = (ms) => microseconds(ms == null ? null : ms * 1000);

// Steps show what happens to upstream now, and what has happened.
function Steps({ events }) {
  const shown = events.filter((e) => ["phase", "settling", "finding", "failed"].includes(e.event));
  return html`
    <ol class="steps" aria-live="polite">
      ${shown.map((e, i) => html`
        <li key=${i} class=${`${e.event} ${i === shown.length - 1 ? "current" : ""}`}>
          <time>${clock(e.at)}</time> ${e.event === "phase" ? html`<b>upstream</b> ${e.text}` : e.text}
        </li>`)}
    </ol>`;
}

const COLUMNS = ["Upstream", "Lasted", "Acknowledged", "Refused", "Reads", "A write, 99 %", "A read, 99 %", "Waiting at its end"];

const Phases = ({ phases }) => html`
  <div class="wide-table" tabindex="0" role="region" aria-label="Phases">
    <table>
      <thead><tr>${COLUMNS.map((name) => html`<th key=${name} scope="col">${name}</th>`)}</tr></thead>
      <tbody>${phases.map((p, i) => html`
        <tr key=${i}>
          <th scope="row">${p.upstream}</th><td>${duration(p.seconds)}</td><td>${number(p.acknowledged)}</td><td>${number(p.refused)}</td>
          <td>${number(p.reads)}</td><td>${milliseconds(p.write_latency?.p99_ms)}</td><td>${milliseconds(p.read_latency?.p99_ms)}</td><td>${number(p.pending)}</td>
        </tr>`)}</tbody>
    </table>
  </div>`;

// Books are the equation that has to hold.
const Books = ({ books, balanced }) => html`
  <p class="books">
    <b>${count(books.acknowledged, "write")} acknowledged</b> ${balanced ? "=" : "≠"} ${number(books.settled)} settled + ${number(books.superseded)} superseded
    + ${number(books.pending)} pending + ${count(books.dead, "dead letter")}${books.unaccounted > 0 && html`; <b class="bad">${number(books.unaccounted)} unaccounted for</b>`}
  </p>`;

const Findings = ({ findings, more }) => findings?.length > 0 && html`
  <ul class="findings">
    ${findings.map((f, i) => html`<li key=${i} class="problem"><b>${f.namespace}/${f.key}</b>: ${f.text} (contract ${f.contract})</li>`)}
    ${more > 0 && html`<li class="note">and ${number(more)} more</li>`}
  </ul>`;

const Audit = ({ audit }) => html`
  <div class="audit">
    <p class=${`verdict ${audit.ok ? "ok" : "bad"}`} role="status">${audit.verdict}</p>
    <${Books} books=${audit.books} balanced=${audit.balanced} />
    <p class="note">Upstream holds what was last acknowledged of ${number(audit.compared - audit.different)} of ${count(audit.compared, "entry", "entries")}. Everything was upstream ${duration(audit.settling_seconds)} after it was well again.${audit.left > 0 && ` ${count(audit.left, "entry", "entries")} of the drill could not be deleted.`}</p>
    <${Phases} phases=${audit.phases} />
    <${Findings} findings=${audit.findings} more=${audit.more_findings} />
  </div>`;

// failureOf is why a drill did not run; a person who stops one knows that.
function failureOf(error) {
  if (!error || error.name === "AbortError") return null;
  return error.status === 404 ? new Error("This daemon has no drill.") : error;
}

export function Drill() {
  const [events, setEvents] = useState([]);
  const ending = useRef(null);
  const [busy, error, run] = useTask(async () => {
    setEvents([]);
    ending.current = new AbortController();
    await stream("drill", {}, (line) => setEvents((before) => [...before, JSON.parse(line)]), ending.current.signal);
  });
  useEffect(() => () => ending.current?.abort(), []);
  const audit = events.find((e) => e.audit)?.audit;
  return html`
    <section class="panel drill" aria-labelledby="drill">
      <header>
        <h2 id="drill">A rehearsed outage</h2>
        ${busy
          ? html`<button type="button" onClick=${() => ending.current.abort()}>Stop</button>`
          : html`<button type="button" class="primary" onClick=${() => run()}>Run the drill</button>`}
      </header>
      <p class="note">For some seconds this daemon's upstream seems to fail, for a namespace of the drill's own and no other. Then the audit balances the books: each acknowledged write has settled, was superseded, still waits, or is a dead letter. It writes some entries upstream, and deletes them. “botwired drill” in a terminal rehearses more, with a throwaway daemon.</p>
      <${Problem} error=${failureOf(error)} />
      ${audit ? html`<${Audit} audit=${audit} />` : events.length > 0 && html`<${Steps} events=${events} />`}
    </section>`;
}
