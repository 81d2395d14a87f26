// JSON, spread out and coloured. It is text, piece by piece: nothing is ever parsed as HTML.

import { html } from "./vendor/htm-preact.js";

// COLOURED is the longest text whose pieces get colours: of a longer one there are too many.
const COLOURED = 40_000;

const PIECES = /("(?:[^"\\]|\\.)*")(\s*:)?|\b(true|false|null)\b|(-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)/g;

// parsed is a value as JSON; undefined if it is none.
export function parsed(value) {
  try {
    return JSON.parse(value);
  } catch {
    return undefined;
  }
}

function pieces(text) {
  const all = [];
  let end = 0;
  for (const match of text.matchAll(PIECES)) {
    const [whole, string, colon, word, number] = match;
    all.push(text.slice(end, match.index));
    const kind = string ? (colon ? "json-name" : "json-text") : word ? "json-word" : number && "json-number";
    all.push(html`<span class=${kind}>${string ?? whole}</span>`, colon ?? "");
    end = match.index + whole.length;
  }
  all.push(text.slice(end));
  return all;
}

export function Json({ document }) {
  const text = JSON.stringify(document, null, 2);
  return html`<pre class="json" tabindex="0" aria-label="JSON">${text.length > COLOURED ? text : pieces(text)}</pre>`;
}
