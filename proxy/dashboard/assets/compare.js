// Two values side by side, with the lines marked that only one of them has.

import { html, useMemo } from "./vendor/htm-preact.js";
import { parsed } from "./json.js";

// linesOf is a value as lines: JSON is spread out, so that it has some.
function linesOf(value) {
  if (value == null) return [];
  const document = parsed(value);
  const spread = document !== null && typeof document === "object";
  return (spread ? JSON.stringify(document, null, 2) : value).split("\n");
}

// bare is a line as it is compared: without the comma, which depends on its neighbour.
const bare = (line) => line.replace(/,$/, "");

function Side({ title, note, value, lines, others, children }) {
  // The page is drawn again at every event: long values only when they change.
  const marked = useMemo(() => lines.map((line, i) => html`<span key=${i} class=${others.has(bare(line)) ? "" : "differs"}>${line}${"\n"}</span>`), [lines, others]);
  return html`
    <section class="compared">
      <h3>${title}${note && html` <span class="note">${note}</span>`}</h3>
      ${value == null ? html`<p class="note">No entry: it was deleted.</p>` : html`<pre tabindex="0" aria-label=${title}>${marked}</pre>`}
      ${children}
    </section>`;
}

// Compare takes for each side its title, its value (null: none), a note, and what stands below it.
export function Compare({ left, right }) {
  const sides = [left, right];
  const lines = sides.map(([, value]) => useMemo(() => linesOf(value), [value]));
  const known = lines.map((of) => useMemo(() => new Set(of.map(bare)), [of]));
  return html`
    <div class="compare">
      ${sides.map(([title, value, note, below], i) => html`<${Side} key=${i} title=${title} value=${value} note=${note} lines=${lines[i]} others=${known[1 - i]}>${below}<//>`)}
    </div>`;
}
