// Two values side by side, with the lines marked that only one of them has.

import { html } from "./vendor/htm-preact.js";
import { parsed } from "./json.js";

// linesOf is a value as lines: JSON is spread out, so that it has some.
function linesOf(value) {
  if (value == null) return [];
  const document = parsed(value);
  const spread = document !== null && typeof document === "object";
  return (spread ? JSON.stringify(document, null, 2) : value).split("\n");
}

function Side({ title, note, value, others, children }) {
  const lines = linesOf(value);
  return html`
    <section class="compared">
      <h3>${title}${note && html` <span class="note">${note}</span>`}</h3>
      ${value == null
        ? html`<p class="note">No entry: it was deleted.</p>`
        : html`<pre tabindex="0" aria-label=${title}>${lines.map((line, i) => html`<span key=${i} class=${others.has(line.replace(/,$/, "")) ? "" : "differs"}>${line}${"\n"}</span>`)}</pre>`}
      ${children}
    </section>`;
}

// Compare takes for each side its title, its value (null: none), a note, and what stands below it.
export function Compare({ left, right }) {
  const sides = [left, right];
  const lines = sides.map(([, value]) => new Set(linesOf(value).map((line) => line.replace(/,$/, ""))));
  return html`
    <div class="compare">
      ${sides.map(([title, value, note, below], i) => html`<${Side} key=${i} title=${title} value=${value} note=${note} others=${lines[1 - i]}>${below}<//>`)}
    </div>`;
}
