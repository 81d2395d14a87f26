// Two values side by side, with the words marked that only one of them has.

import { html, useMemo } from "./vendor/htm-preact.js";
import { parsed } from "./json.js";

// textOf is a value as it is compared: JSON is spread out, so that it has lines.
function textOf(value) {
  if (value == null) return "";
  const document = parsed(value);
  return document !== null && typeof document === "object" ? JSON.stringify(document, null, 2) : value;
}

// TOKENS divide texts into words. Texts with too many differing words are compared line by line.
const TOKENS = [/[\p{L}\p{N}_]+|,?\n\s*|./gsu, /[^\n]*\n|[^\n]+/g];
const MOST = 4_000_000; // pairs of tokens to compare

// bare is a token as it is compared: without a comma at the end of its line, which depends on the line's neighbour.
const bare = (token) => token.replace(/,(?=\n|$)/, "");

// common marks the tokens of a longest common subsequence; null if that takes too long.
function common(a, b) {
  let [from, end] = [0, 0];
  while (from < Math.min(a.length, b.length) && bare(a[from]) === bare(b[from])) from++;
  while (end < Math.min(a.length, b.length) - from && bare(a.at(-1 - end)) === bare(b.at(-1 - end))) end++;
  const [rows, columns] = [a.length - from - end, b.length - from - end];
  if (rows * columns > MOST) return null;
  const width = columns + 1;
  const longest = new Uint16Array((rows + 1) * width); // of the tokens from here on
  const same = (i, j) => bare(a[from + i]) === bare(b[from + j]);
  for (let i = rows - 1; i >= 0; i--) {
    for (let j = columns - 1; j >= 0; j--) {
      longest[i * width + j] = same(i, j) ? longest[(i + 1) * width + j + 1] + 1 : Math.max(longest[(i + 1) * width + j], longest[i * width + j + 1]);
    }
  }
  const shared = [a, b].map((tokens) => tokens.map((_, i) => i < from || i >= tokens.length - end));
  for (let i = 0, j = 0; i < rows && j < columns;) {
    if (same(i, j)) shared[0][from + i++] = shared[1][from + j++] = true;
    else if (longest[(i + 1) * width + j] >= longest[i * width + j + 1]) i++;
    else j++;
  }
  return [a, b].map((tokens, side) => pieces(tokens, shared[side]));
}

// pieces joins neighbours: pairs of a text, and whether both sides have it.
function pieces(tokens, shared) {
  const all = [];
  tokens.forEach((token, i) => {
    if (all.length > 0 && all.at(-1)[1] === shared[i]) all.at(-1)[0] += token;
    else all.push([token, shared[i]]);
  });
  return all;
}

function compare(texts) {
  for (const token of TOKENS) {
    const both = common(...texts.map((text) => text.match(token) ?? []));
    if (both) return both;
  }
  return texts.map((text) => [[text, false]]);
}

const Side = ({ title, note, value, marked, children }) => html`
  <section class="compared">
    <h3>${title}${note && html` <span class="note">${note}</span>`}</h3>
    ${value == null ? html`<p class="note">No entry: it was deleted.</p>` : html`<pre tabindex="0" aria-label=${title}>${marked}</pre>`}
    ${children}
  </section>`;

// Compare takes for each side its title, its value (null: none), a note, and what stands below it.
export function Compare({ left, right }) {
  const sides = [left, right];
  // The page is drawn again at every event: values only when they change.
  const marked = useMemo(() => compare([left[1], right[1]].map(textOf)).map((side) =>
    side.map(([text, shared], i) => (shared ? text : html`<mark key=${i}>${text}</mark>`))), [left[1], right[1]]);
  return html`
    <div class="compare">
      ${sides.map(([title, value, note, below], i) => html`<${Side} key=${i} title=${title} value=${value} note=${note} marked=${marked[i]}>${below}<//>`)}
    </div>`;
}
