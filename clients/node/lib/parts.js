"use strict";

// Values that are too long for one entry, in parts: the form of the Python package's _parts.py, so that each reads the
// other's.
//
// BotWire takes 100,000 characters in a value. A longer one is cut: each part is an entry of its own under a name that
// nothing else has, and the value's own entry names them in their order:
//
//     {"botwired": "parts", "parts": ["5f0c…", "a17e…"]}
//
// The parts are written first. So a reader sees the whole value of before or the whole new one. A part never changes.
const { randomBytes } = require("node:crypto");
const { BotwiredError, Conflict } = require("./errors.js");
const { isObject } = require("./http.js");
const { Contention } = require("./retry.js");
const { decode, encode } = require("./values.js");

/** @import { Entry, Memory } from "../index.js" */

/** How long a part is. The rest of the 100,000 characters is for what is around it. */
const PART_CHARS = 90_000;
/** It begins every part. So no part looks like JSON, and each is stored as it is. */
const MARK = "=";
/** How many requests one call makes at the same time. */
const AT_ONCE = 8;
/** How long a delete is tried again that others are faster with, in milliseconds. */
const CONTENDED = 30_000;

/**
 * Compact JSON of any value.
 * @param {unknown} value
 */
function toJson(value) {
  return encode([value]).slice(1, -1);
}

/**
 * The parts of a text, by new names.
 * @param {string} text
 */
function cut(text) {
  /** @type {Map<string, string>} */
  const parts = new Map();
  for (let start = 0; start < text.length; ) {
    let end = start + PART_CHARS;
    if (/[\ud800-\udbff]/.test(text.charAt(end - 1))) end--; // no character is cut in two
    parts.set(randomBytes(8).toString("hex"), MARK + text.slice(start, end));
    start = end;
  }
  return parts;
}

/**
 * The text of all parts. undefined: some are gone.
 * @param {(Entry | undefined)[]} parts
 */
function join(parts) {
  return parts.includes(undefined) ? undefined : parts.map((part) => part?.text.slice(MARK.length)).join("");
}

/**
 * Calls a function for each, a few at a time, and returns the results in their order.
 * @template T, R
 * @param {readonly T[]} all
 * @param {(each: T) => Promise<R>} work
 */
async function each(all, work) {
  /** @type {R[]} */
  const results = new Array(all.length);
  const queue = all.entries();
  const worker = async () => {
    for (const [at, one] of queue) results[at] = await work(one);
  };
  await Promise.all(Array.from({ length: Math.min(AT_ONCE, all.length) }, worker));
  return results;
}

/**
 * Deletes entries that nothing names any more. What cannot be deleted now stays: the change itself is made.
 * @param {Memory} memory
 * @param {Iterable<string>} keys
 */
async function drop(memory, keys) {
  try {
    for (const key of keys) await memory.delete(key);
  } catch (error) {
    if (!(error instanceof BotwiredError)) throw error;
  }
}

/** Values of any length. `partKey` makes the key of a part of its name. */
class Documents {
  #memory;
  #partKey;

  /** @param {Memory} memory @param {(name: string) => string} partKey */
  constructor(memory, partKey) {
    this.#memory = memory;
    this.#partKey = partKey;
  }

  /**
   * The entry with its whole value.
   * @param {string} key
   * @returns {Promise<Entry | undefined>}
   */
  async load(key) {
    let lost = "";
    for (;;) {
      const entry = await this.#memory.entry(key);
      const names = namesOf(entry?.value);
      if (entry === undefined || names.length === 0) return entry;
      const text = join(await each(names, (name) => this.#memory.entry(this.#partKey(name))));
      if (text !== undefined) {
        const whole = decode(`[${text}]`);
        if (!Array.isArray(whole)) throw new BotwiredError(`the parts of the value of ${JSON.stringify(key)} are no JSON together`);
        return { ...entry, value: whole[0] };
      }
      // Somebody has written another value meanwhile, which is read. Where it is the same one, its parts are missing.
      if (lost === entry.text) {
        throw new BotwiredError(
          `parts of the value of ${JSON.stringify(key)} are missing. If another host has written it, they may still be on their way: try ` +
            "again. If somebody has deleted them, the value is lost: write it anew, or delete it",
        );
      }
      lost = entry.text;
    }
  }

  /**
   * Writes whatever there is.
   * @param {string} key
   * @param {unknown} value
   */
  async put(key, value) {
    const text = toJson(value);
    const parts = text.length > PART_CHARS || namesOf(value).length > 0 ? cut(text) : new Map();
    for (const [name, part] of parts) await this.#memory.set(this.#partKey(name), part);
    /** @type {string[]} */
    let before = [];
    await this.#memory.update(key, (/** @type {unknown} */ old) => {
      before = namesOf(old);
      return parts.size > 0 ? { botwired: "parts", parts: [...parts.keys()] } : value;
    });
    await drop(this.#memory, before.map(this.#partKey));
  }

  /**
   * Deletes whatever there is.
   * @param {string} key
   */
  async remove(key) {
    const contention = new Contention(key, CONTENDED);
    for (;;) {
      const entry = await this.#memory.entry(key);
      if (entry === undefined) return;
      try {
        await this.#memory.delete(key, entry.version === undefined ? {} : { ifVersion: entry.version });
      } catch (error) {
        if (!(error instanceof Conflict)) throw error;
        await contention.pauseAfter(error);
        continue;
      }
      await drop(this.#memory, namesOf(entry.value).map(this.#partKey));
      return;
    }
  }
}

/**
 * The names of a value's parts. None: it is whole.
 * @param {unknown} value
 * @returns {string[]}
 */
function namesOf(value) {
  const isCut = isObject(value) && value.botwired === "parts" && Array.isArray(value.parts) && value.parts.every((name) => typeof name === "string");
  return isCut ? /** @type {string[]} */ (value.parts) : [];
}

module.exports = { Documents, PART_CHARS, cut, drop, each, join, toJson };
