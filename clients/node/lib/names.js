"use strict";

// Any text as a key or a namespace of BotWire's: the rules of the Python package's _names.py. tests/names.json there holds
// both packages, the Go code and the dashboard to them.
const { createHash } = require("node:crypto");

const DIGEST = /^_-[a-zA-Z0-9_-]{43}$/;

/** The names that BotWire takes, and the escape for all others. */
class Alphabet {
  #what;
  #allowed;
  #limit;
  #mark;
  #escape;

  /** @param {string} what @param {string} allowed @param {number} limit @param {string} mark @param {string} escape */
  constructor(what, allowed, limit, mark, escape) {
    this.#what = what;
    this.#allowed = new RegExp(`^[${allowed}]{1,${limit}}$`);
    this.#limit = limit;
    this.#mark = mark;
    this.#escape = escape;
  }

  /**
   * The name for the wire. An empty name is refused.
   * @param {string} name
   */
  toWire(name) {
    if (typeof name !== "string") throw new TypeError(`a ${this.#what} must be a string, not ${name === null ? "null" : typeof name}`);
    if (name === "") throw new TypeError(`a ${this.#what} must not be empty`);
    if (this.#isPlain(name)) return { text: name, isDigest: false };
    const escaped = this.#escaped(name);
    if (escaped.length <= this.#limit) return { text: escaped, isDigest: false };
    return { text: `_-${createHash("sha256").update(bytesOf(name)).digest("base64url")}`, isDigest: true };
  }

  /**
   * The name that toWire has made this text of. A text that it cannot have made is its own name.
   * @param {string} text
   */
  fromWire(text) {
    return this.#unescaped(text) ?? text;
  }

  /** @param {string} name @returns {boolean} */
  #isPlain(name) {
    return this.#allowed.test(name) && !isDigest(name) && this.#unescaped(name) === undefined;
  }

  /** @param {string} name */
  #escaped(name) {
    let text = this.#mark;
    for (const byte of bytesOf(name)) {
      const character = String.fromCharCode(byte);
      const isPlain = character !== this.#escape && this.#allowed.test(character);
      text += isPlain ? character : this.#escape + byte.toString(16).toUpperCase().padStart(2, "0");
    }
    return text;
  }

  /** @param {string} text @returns {string | undefined} */
  #unescaped(text) {
    if (!text.startsWith(this.#mark)) return undefined;
    const bytes = [];
    for (let at = this.#mark.length; at < text.length; at++) {
      if (text[at] !== this.#escape) {
        bytes.push(text.charCodeAt(at));
      } else {
        const digits = text.slice(at + 1, at + 3);
        if (!/^[0-9A-F]{2}$/.test(digits)) return undefined;
        bytes.push(Number.parseInt(digits, 16));
        at += 2;
      }
    }
    const name = textOf(bytes);
    return name !== "" && this.#escaped(name) === text && !this.#isPlain(name) ? name : undefined;
  }
}

/**
 * UTF-8, with a lone surrogate as the three bytes that it would have for it.
 * @param {string} text
 */
function bytesOf(text) {
  const bytes = [];
  for (const character of text) {
    const point = /** @type {number} */ (character.codePointAt(0));
    if (point < 0x80) bytes.push(point);
    else if (point < 0x800) bytes.push(0xc0 | (point >> 6), 0x80 | (point & 63));
    else if (point < 0x10000) bytes.push(0xe0 | (point >> 12), 0x80 | ((point >> 6) & 63), 0x80 | (point & 63));
    else bytes.push(0xf0 | (point >> 18), 0x80 | ((point >> 12) & 63), 0x80 | ((point >> 6) & 63), 0x80 | (point & 63));
  }
  return Uint8Array.from(bytes);
}

/**
 * The text of such bytes. Of other bytes it is some text, and the caller compares.
 * @param {number[]} bytes
 */
function textOf(bytes) {
  let text = "";
  for (let at = 0; at < bytes.length; ) {
    const first = bytes[at] ?? 0;
    const length = first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    let point = length === 1 ? first : first & (0x7f >> length);
    for (let next = 1; next < length; next++) point = (point << 6) | ((bytes[at + next] ?? 0) & 63);
    text += String.fromCodePoint(point <= 0x10ffff ? point : 0xfffd);
    at += length;
  }
  return text;
}

/**
 * Whether a key on the wire is a digest: its value has the name in it.
 * @param {string} text
 */
function isDigest(text) {
  return DIGEST.test(text);
}

const KEYS = new Alphabet("key", "a-zA-Z0-9_.-", 128, "_.", ".");
const NAMESPACES = new Alphabet("namespace", "a-zA-Z0-9_-", 64, "__", "_");

module.exports = { KEYS, NAMESPACES, isDigest };
