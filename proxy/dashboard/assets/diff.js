// How two texts differ: word by word, or where that takes too long line by line.

import { parsed } from "./json.js";

// textOf is a value as it is compared: JSON is spread out, so that it has lines.
export function textOf(value) {
  if (value == null) return "";
  const document = parsed(value);
  return document !== null && typeof document === "object" ? JSON.stringify(document, null, 2) : value;
}

const WORDS = /[\p{L}\p{N}_]+|,?\n\s*|./gsu;
const LINES = /[^\n]*\n|[^\n]+/g;
const MOST = 4_000_000; // pairs of tokens to compare

// bare is a token as it is compared: without a comma at the end of its line, which depends on the line's neighbour, and
// as the last line of a text has no end.
const bare = (token) => token.replace(/,(?=\n|$)/, "").replace(/(?<=.)\n$/, "");

const split = (text, tokens) => text.match(tokens) ?? [];

// common says of each token of two lists whether a longest common subsequence has it; null if that takes too long.
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
  return shared;
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

// compare is both texts in pieces.
export function compare(texts) {
  for (const kind of [WORDS, LINES]) {
    const tokens = texts.map((text) => split(text, kind));
    const shared = common(...tokens);
    if (shared) return tokens.map((one, side) => pieces(one, shared[side]));
  }
  return texts.map((text) => [[text, false]]);
}

// inLines is a text's pieces, line by line.
function inLines(all) {
  const lines = [[]];
  for (const [text, shared] of all) {
    text.split("\n").forEach((part, i) => {
      if (i > 0) lines.push([]);
      if (part) lines.at(-1).push([part, shared]);
    });
  }
  if (lines.at(-1).length === 0) lines.pop();
  return lines;
}

// changes is what has become of a text, line by line: each with a kind ("same", "removed" or "added") and its pieces.
export function changes(before, after) {
  const [a, b] = [before, after].map((text) => split(text, LINES));
  const [had, has] = common(a, b) ?? [a, b].map((lines) => lines.map(() => false));
  const all = [];
  for (let i = 0, j = 0; i < a.length || j < b.length;) {
    const [from, to] = [i, j];
    while (i < a.length && !had[i]) i++;
    while (j < b.length && !has[j]) j++;
    if (i > from || j > to) {
      const [removed, added] = compare([a.slice(from, i).join(""), b.slice(to, j).join("")]).map(inLines);
      all.push(...removed.map((line) => ["removed", line]), ...added.map((line) => ["added", line]));
    }
    for (; i < a.length && j < b.length && had[i] && has[j]; i++, j++) all.push(["same", [[b[j].replace(/\n$/, ""), true]]]);
  }
  return all;
}
