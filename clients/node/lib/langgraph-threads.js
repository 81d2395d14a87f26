"use strict";

// Threads of LangGraph's as entries.
//
// A saver that writes an entry for each step uses up a day's writes in some hundred steps. Here a thread is the entry
// threads/THREAD/NAMESPACE, in which each step takes the place of an older one:
//
//     {"checkpoints": [{"id", "parent", "checkpoint", "metadata", "writes": [WRITE]}], "early": {ID: [WRITE]}}
//
// with each WRITE as {"task", "path", "index", "channel", "value"}. The newest checkpoint comes first. "early" are writes to
// a checkpoint that is still on its way.
//
// A checkpoint, its metadata and a value are texts. If an entry gets too long, the longest of them go into parts, entries
// of their own, and a list of the parts' names takes their place. A part never changes, and is there before anything names
// it: so a reader sees whole checkpoints.
const { BotwiredError } = require("./errors.js");
const { isObject } = require("./http.js");
const { PART_CHARS, cut, drop, each, join: joinParts, toJson } = require("./parts.js");
const { join, split } = require("./paths.js");

/** @import { Memory } from "../index.js" */
/**
 * @typedef {string | string[]} Text itself, or the names of its parts
 * @typedef {{ task: string, path: string, index: number, channel: string, value: Text }} Write
 * @typedef {{ id: string, parent: string | null, checkpoint: Text, metadata: Text, writes: Write[] }} Kept
 * @typedef {{ checkpoints: Kept[], early: Record<string, Write[]> }} Thread
 */

const ROOT = "threads";
/** No label of a path is that: a ~ in one is escaped. */
const PARTS = "~parts";
/** How long an entry may be before texts go into parts. */
const INLINE_CHARS = PART_CHARS - 5_000;

/** Threads as entries, with their parts. */
class Threads {
  #memory;

  /** @param {Memory} memory */
  constructor(memory) {
    this.#memory = memory;
  }

  /**
   * Each namespace of a thread, or of all threads, with its thread.
   * @param {string | undefined} threadId
   */
  async places(threadId) {
    const keys = await this.#memory.keys(`${join(threadId === undefined ? [ROOT] : [ROOT, threadId])}/`);
    return keys
      .map(split)
      .filter(({ length }) => length === 3) // parts have one more, and keys of others any number
      .map((labels) => /** @type {[string, string]} */ (labels.slice(1)))
      .sort(([one], [other]) => (one < other ? -1 : one > other ? 1 : 0));
  }

  /**
   * The checkpoints that `choose` takes of all, whole, the newest first. It is called again if the thread has changed meanwhile.
   * @param {string} threadId
   * @param {string} namespace
   * @param {(all: Kept[]) => Kept[]} choose
   */
  async read(threadId, namespace, choose) {
    let lost = "";
    for (;;) {
      const entry = await this.#memory.entry(join([ROOT, threadId, namespace]));
      const wanted = choose(threadOf(entry?.value, threadId).checkpoints);
      const isWhole = await each(wanted.flatMap(textsOf), (text) => this.#complete(threadId, text));
      if (!isWhole.includes(false)) return wanted;
      // Somebody has written the thread anew meanwhile, or else:
      if (lost === entry?.text) {
        throw new BotwiredError(
          `parts of the thread ${JSON.stringify(threadId)} are missing. If another host has written them, they may still be on their way: ` +
            "try again. If somebody has deleted them, delete the thread",
        );
      }
      lost = entry?.text ?? "";
    }
  }

  /**
   * Edits a thread as it is, and again if somebody else has written meanwhile.
   * @param {string} threadId
   * @param {string} namespace
   * @param {(thread: Thread) => void} edit
   */
  async change(threadId, namespace, edit) {
    /** @type {string[]} */
    let written = [];
    /** @type {Set<string>} */
    let before = new Set();
    const thread = await this.#memory.update(join([ROOT, threadId, namespace]), async (/** @type {unknown} */ old) => {
      await this.#drop(threadId, written); // of an attempt that others were faster with
      const thread = threadOf(old, threadId);
      before = new Set(partsOf(thread));
      edit(thread);
      written = await this.#fit(threadId, thread);
      return thread;
    });
    const now = new Set(partsOf(thread));
    await this.#drop(threadId, [...before, ...written].filter((name) => !now.has(name)));
  }

  /** @param {string} threadId */
  async delete(threadId) {
    for (const key of await this.#memory.keys(`${join([ROOT, threadId])}/`)) await this.#memory.delete(key);
  }

  /**
   * Puts the longest texts into parts, until the rest fits into an entry, and returns the parts' names. If that is not
   * enough, the oldest checkpoints go.
   * @param {string} threadId
   * @param {Thread} thread
   */
  async #fit(threadId, thread) {
    /** @type {string[]} */
    const written = [];
    const inline = allTexts(thread).filter((text) => typeof text.get() === "string");
    inline.sort((one, other) => other.get().length - one.get().length);
    let excess = toJson(thread).length - INLINE_CHARS;
    for (const text of inline) {
      if (excess <= 0) break;
      const parts = cut(/** @type {string} */ (text.get()));
      for (const [name, part] of parts) await this.#memory.set(partKey(threadId, name), part);
      excess -= text.get().length - toJson([...parts.keys()]).length;
      text.set([...parts.keys()]);
      written.push(...parts.keys());
    }
    while (toJson(thread).length > PART_CHARS && thread.checkpoints.length > 1) thread.checkpoints.pop();
    return written;
  }

  /**
   * Puts a text together of its parts. false: some are gone.
   * @param {string} threadId
   * @param {Place} text
   */
  async #complete(threadId, text) {
    const names = text.get();
    if (typeof names === "string") return true;
    const whole = joinParts(await each(names, (name) => this.#memory.entry(partKey(threadId, name))));
    if (whole === undefined) return false;
    text.set(whole);
    return true;
  }

  /** @param {string} threadId @param {string[]} names */
  async #drop(threadId, names) {
    await drop(this.#memory, names.map((name) => partKey(threadId, name)));
  }
}

/** @param {string} threadId @param {string} name */
function partKey(threadId, name) {
  return `${join([ROOT, threadId])}/${PARTS}/${name}`;
}

/**
 * What an entry holds, to edit.
 * @param {unknown} value
 * @param {string} threadId
 * @returns {Thread}
 */
function threadOf(value, threadId) {
  if (value === undefined) return { checkpoints: [], early: {} };
  if (!isObject(value) || !("checkpoints" in value)) {
    throw new BotwiredError(`the entry of the thread ${JSON.stringify(threadId)} holds something else: it is left as it is`);
  }
  return /** @type {any} */ (value);
}

/** @typedef {{ get: () => Text, set: (text: Text) => void }} Place where a text of a thread is */

/**
 * @template {string} K
 * @param {Record<K, Text>} holder
 * @param {K} name
 * @returns {Place}
 */
function place(holder, name) {
  return {
    get: () => holder[name],
    set: (text) => {
      holder[name] = text;
    },
  };
}

/** @param {Kept} kept */
function textsOf(kept) {
  return [place(kept, "checkpoint"), place(kept, "metadata"), ...kept.writes.map((write) => place(write, "value"))];
}

/** @param {Thread} thread */
function allTexts(thread) {
  return [...thread.checkpoints.flatMap(textsOf), ...Object.values(thread.early).flatMap((writes) => writes.map((write) => place(write, "value")))];
}

/** @param {Thread} thread */
function partsOf(thread) {
  return allTexts(thread).flatMap((text) => {
    const names = text.get();
    return typeof names === "string" ? [] : names;
  });
}

module.exports = { Threads };
