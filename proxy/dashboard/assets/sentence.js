// The sentence on top: whether all is well, or what is wrong, since when, and what to do. The
// daemon makes it, so that the command line says the same.

import { html } from "./vendor/htm-preact.js";
import { WithCommands } from "./commands.js";
import { ago, clock, count } from "./format.js";

const SIGNS = { ok: "✓", notice: "i", warning: "!", critical: "!" };
const MEANINGS = { ok: "All is well", notice: "To know", warning: "Needs attention", critical: "Critical" };

// sentence makes one of a remedy or a reason, which the daemon says without a capital and a full stop. The
// program's name has no capital.
export function sentence(text) {
  if (!text) return "";
  const first = text.startsWith("botwired") ? text[0] : text[0].toUpperCase();
  return `${first}${text.slice(1)}${text.endsWith(".") ? "" : "."}`;
}

const NO_ANSWER = { remedy: "this page asks again every second; in a terminal, botwired serve starts the daemon", commands: ["botwired serve"] };

// Remedy is what to do about a finding. Dead letters have a view of their own.
const Remedy = ({ of, then }) => html`
  <${WithCommands} text=${sentence(of.remedy)} commands=${of.commands} then=${then} />
  ${of.kind === "dead_letters" && !location.hash.startsWith("#/dead-letters") && html` <a class="button deed" href="#/dead-letters">See them</a>`}`;

export function Sentence({ status, error, small, again }) {
  const summary = error
    ? { level: "critical", text: error.message, since: null, ...NO_ANSWER }
    : status?.summary ?? { level: "notice", text: status ? "The daemon is there." : "Asking the daemon…" };
  const { since, detail, remedy, also = [] } = summary;
  const outage = !error && status?.upstream.state === "down" ? "outage" : "";
  const began = since && html`<time>Since ${clock(since)}, ${ago(since)}.</time>`;
  const more = also.length > 0 ? `${count(also.length, "thing")} more to know` : "What to know";
  const todo = html`${began} <${Remedy} of=${summary} then=${again} />`;
  return html`
    <section class=${`sentence ${summary.level} ${outage} ${small ? "small" : ""}`} aria-label="State of the daemon">
      <span class="sign" aria-hidden="true">${SIGNS[summary.level]}</span>
      <div>
        <h1>${summary.text}</h1>
        ${detail && html`<p>${sentence(detail)}</p>`}
        ${(since || remedy) && html`<div class=${`todo ${detail ? "wide" : ""}`}>${todo}</div>`}
        ${!small && (also.length > 0 || detail) && html`
          <details class=${also.length > 0 ? "" : "narrow"}>
            <summary>${more}</summary>
            <ul>
              ${detail && html`<li class="narrow">${todo}</li>`}
              ${also.map((f) => html`<li key=${f.kind} class=${f.level}><b>${f.text}.</b> <${Remedy} of=${f} then=${again} /></li>`)}
            </ul>
          </details>`}
      </div>
      <span class="hidden" role="status">${MEANINGS[summary.level]}</span>
    </section>`;
}
