"use strict";

// Entries, their versions, and what a write is answered with.
const { isObject } = require("./http.js");
const { KEYS, isDigest } = require("./names.js");
const { LONE_SURROGATE, decode } = require("./values.js");

/** @import { Answer } from "./http.js" */

/**
 * The tag in an answer. undefined: a plain BotWire has none. "": a botwired's is lost on the way.
 *
 * Gateways change or drop the ETag of an answer that they compress, and leave alone the header of botwired's own.
 * @param {Answer} answer
 * @param {boolean} hasVersions
 */
function tagOf({ headers }, hasVersions) {
  const tag = headers.get("botwired-etag") ?? headers.get("etag") ?? undefined;
  return tag === undefined && hasVersions ? "" : tag;
}

/**
 * Whether an answer shows that it is a botwired's. A gateway may have dropped what would show it.
 * @param {Headers} headers
 */
function isFromBotwired(headers) {
  return (headers.get("cache-status")?.includes("botwired") ?? false) || [...headers.keys()].some((name) => name.startsWith("botwired-"));
}

/**
 * The entry of a 200 to a GET.
 * @param {Answer} answer
 * @param {string} wireKey
 * @param {boolean} hasVersions
 */
function entryOf(answer, wireKey, hasVersions) {
  const { value, created_at: created, updated_at: updated } = answer.json();
  if (typeof value !== "string" || LONE_SURROGATE.test(value)) throw answer.foreign();
  const times = { createdAt: dateOf(created, answer), updatedAt: dateOf(updated, answer) };
  const [key, text] = isDigest(wireKey) ? unwrap(wireKey, value) : [KEYS.fromWire(wireKey), value];
  return { key, value: decode(text), text, version: tagOf(answer, hasVersions), ...times };
}

/**
 * The keys of a 200 to a LIST, as they are on the wire.
 * @param {Answer} answer
 */
function keysOf(answer) {
  return rowsOf(answer.json().keys, answer).map(({ key }) => key);
}

/**
 * The page after a key of the daemon's own listing: its keys, after which the next one begins ("" if there is none), and
 * whether the listing has all.
 * @param {Answer} answer
 * @param {string} after
 */
function pageOf(answer, after) {
  const { entries, next = null, complete } = answer.json();
  const keys = rowsOf(entries, answer).filter(({ op }) => op !== "delete").map(({ key }) => key);
  if (next !== null && !(typeof next === "string" && next > after)) throw answer.foreign(); // pages in a circle have no end
  return { keys, next: next ?? "", isComplete: complete === true };
}

/** @param {unknown} rows @param {Answer} answer @returns {{ key: string, op?: unknown }[]} */
function rowsOf(rows, answer) {
  if (!Array.isArray(rows) || !rows.every((row) => isObject(row) && typeof row.key === "string")) throw answer.foreign();
  return rows;
}

/**
 * What the 200 to a PUT says.
 * @param {Answer} answer
 * @param {boolean} hasVersions
 */
function writtenOf(answer, hasVersions) {
  if (answer.json().stored !== true) throw answer.foreign();
  const [, state, seq] = /^([^;]+)(?:;.*\bseq=(\d+))?/.exec(answer.headers.get("botwired-write") ?? "") ?? [];
  return { version: tagOf(answer, hasVersions), state, seq: seq === undefined ? undefined : Number(seq) };
}

/**
 * The states that the daemon lists.
 * @param {Answer} answer
 * @param {string} wireKey
 */
function revisionsOf(answer, wireKey) {
  const { revisions } = answer.json();
  if (!Array.isArray(revisions)) throw answer.foreign();
  return revisions.map((row) => revisionOf(row, answer, wireKey));
}

/**
 * A state of a daemon's answer.
 * @param {unknown} row
 * @param {Answer} answer
 * @param {string} wireKey
 */
function revisionOf(row, answer, wireKey) {
  if (!isObject(row)) throw answer.foreign();
  const { revision, state, value: stored, updated_at: written, host, here, seq, author = "" } = row;
  const isRight =
    isNumberOrNull(revision) && isNumberOrNull(seq) && typeof state === "string" && (typeof stored === "string" || stored === null) &&
    typeof host === "string" && typeof here === "boolean" && typeof author === "string";
  if (!isRight) throw answer.foreign();
  const text = stored !== null && isDigest(wireKey) ? unwrap(wireKey, stored)[1] : stored;
  const name = revision !== null ? String(revision) : seq !== null ? `w${seq}` : undefined;
  const value = text === null ? undefined : decode(text);
  return { name, state, exists: text !== null, value, author, host, here, writtenAt: dateOf(written, answer) };
}

/** @param {unknown} value @returns {value is number | null} */
function isNumberOrNull(value) {
  return value === null || typeof value === "number";
}

/** @param {unknown} seconds @param {Answer} answer */
function dateOf(seconds, answer) {
  const date = new Date(typeof seconds === "number" ? seconds * 1000 : Number.NaN);
  if (Number.isNaN(date.getTime())) throw answer.foreign();
  return date;
}

/**
 * The text to store under a digest: a line of JSON with the key's name, and then the value's text as it is.
 * @param {string} name
 * @param {string} text
 */
function wrap(name, text) {
  return `${JSON.stringify({ key: name })}\n${text}`;
}

/**
 * The name and the text of what `wrap` has made; another client's text has the key for a name.
 * @param {string} wireKey
 * @param {string} stored
 * @returns {[string, string]}
 */
function unwrap(wireKey, stored) {
  const end = stored.indexOf("\n");
  const line = decode(end < 0 ? stored : stored.slice(0, end));
  if (isObject(line) && typeof line.key === "string" && line.key && KEYS.toWire(line.key).text === wireKey) {
    return [line.key, end < 0 ? "" : stored.slice(end + 1)];
  }
  return [wireKey, stored];
}

module.exports = { entryOf, isFromBotwired, keysOf, pageOf, revisionOf, revisionsOf, tagOf, unwrap, wrap, writtenOf };
