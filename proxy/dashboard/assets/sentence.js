// The sentence on top: whether all is well, or what is wrong, since when, and what to do. The
// daemon makes it, so that the command line says the same.

import { html } from "./vendor/htm-preact.js";
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

export function Sentence({ status, error, small }) {
  const summary = error
    ? { level: "critical", text: error.message, since: null, remedy: "This page asks again every second. In a terminal, “botwired serve” starts the daemon." }
    : status?.summary ?? { level: "notice", text: status ? "The daemon is there." : "Asking the daemon…" };
  const { since, detail, remedy, also = [] } = summary;
  const outage = !error && status?.upstream.state === "down" ? "outage" : "";
  const began = since && html`<time>Since ${clock(since)}, ${ago(since)}.</time>`;
  const more = also.length > 0 ? `${count(also.length, "thing")} more to know` : "What to know";
  return html`
    <section class=${`sentence ${summary.level} ${outage} ${small ? "small" : ""}`} aria-label="State of the daemon">
      <span class="sign" aria-hidden="true">${SIGNS[summary.level]}</span>
      <div>
        <h1>${summary.text}</h1>
        ${detail && html`<p>${sentence(detail)}</p>`}
        ${(since || remedy) && html`<p class=${detail ? "wide" : ""}>${began} ${sentence(remedy)}</p>`}
        ${!small && (also.length > 0 || detail) && html`
          <details class=${also.length > 0 ? "" : "narrow"}>
            <summary>${more}</summary>
            <ul>
              ${detail && html`<li class="narrow">${began} ${sentence(remedy)}</li>`}
              ${also.map((f) => html`<li key=${f.text} class=${f.level}><b>${f.text}.</b> ${sentence(f.remedy)}</li>`)}
            </ul>
          </details>`}
      </div>
      <span class="hidden" role="status">${MEANINGS[summary.level]}</span>
    </section>`;
}
