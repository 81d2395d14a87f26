// Two values side by side with the words marked that only one of them has, and one below the other: what a change has
// removed and added.

import { html, useMemo } from "./vendor/htm-preact.js";
import { changes, compare, textOf } from "./diff.js";
import { count } from "./format.js";

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

const AROUND = 3; // unchanged lines that are shown beside a change
const MOST_LINES = 500; // that are shown

const KINDS = { removed: ["del", "−", "removed"], added: ["ins", "+", "added"], same: ["span", " ", null] };

function Line({ kind, line }) {
  const [element, sign, word] = KINDS[kind];
  return html`
    <div class=${`line ${kind}`}><i aria-hidden="true">${sign}</i><${element}>${word && html`<span class="hidden">${word}: </span>`}${line.map(([text, shared], i) =>
      (shared ? text : html`<mark key=${i}>${text}</mark>`))}<//></div>`;
}

// shortened leaves out unchanged lines that are far from any change: a number stands for them.
function shortened(lines) {
  const near = new Set();
  lines.forEach(([kind], i) => {
    if (kind !== "same") for (let j = i - AROUND; j <= i + AROUND; j++) near.add(j);
  });
  if (near.size === 0) return lines;
  const all = [];
  lines.forEach((line, i) => {
    if (near.has(i)) all.push(line);
    else if (typeof all.at(-1) === "number") all[all.length - 1]++;
    else all.push(1);
  });
  return all;
}

// Changes shows what has become of a value (null: none) since.
export function Changes({ before, after, label }) {
  const shown = useMemo(() => {
    const found = changes(textOf(before), textOf(after));
    const alike = before != null && after != null && before !== after && found.every(([kind]) => kind === "same");
    const all = shortened(found);
    const most = all.slice(0, MOST_LINES).map((line, i) => (typeof line === "number"
      ? html`<div key=${i} class="line gap">${`${count(line, "line")} as before`}</div>`
      : html`<${Line} key=${i} kind=${line[0]} line=${line[1]} />`));
    return [alike && html`<div class="line gap">They differ in white space only.</div>`, ...most, all.length > MOST_LINES && html`<div class="line gap">${`${count(all.length - MOST_LINES, "more line")} not shown`}</div>`];
  }, [before, after]);
  return html`<div class="changes" role="group" tabindex="0" aria-label=${label}>${shown}</div>`;
}
