"use strict";

// Memory: the entries of one namespace, by key.
const { randomUUID } = require("node:crypto");
const { inspect } = require("node:util");
const { addressOf, authorOf } = require("./address.js");
const { entryOf, isFromBotwired, keysOf, pageOf, revisionOf, revisionsOf, tagOf, wrap, writtenOf } = require("./entries.js");
const { BotwiredError, Conflict, Incomplete, Refused, Unavailable, Unsupported } = require("./errors.js");
const { isObject, sender } = require("./http.js");
const { KEYS, NAMESPACES, isDigest } = require("./names.js");
const { Contention, exchange } = require("./retry.js");
const time = require("./time.js");
const turns = require("./turns.js");
const { encode } = require("./values.js");

/** @import { Answer, Request } from "./http.js" */
/** @import { MemoryOptions, WriteOptions } from "../index.js" */

/** @type {typeof import("../index.js").ABSENT} */
const ABSENT = /** @type {any} */ (Symbol("botwired.ABSENT"));

/** BotWire lists no more keys of a namespace. */
const LIST_LIMIT = 1000;
/** The daemon's own listing gives no more keys at a time. */
const PAGE = 10_000;
const MOST_SEPARATOR = 100;

class Memory {
  #namespace;
  #wireNamespace;
  #url;
  #patience;
  #author;
  #send;
  #hasVersions = false;
  /** @type {string | undefined} */
  #state;

  /** @param {string} namespace @param {MemoryOptions} [options] */
  constructor(namespace, options = {}) {
    checkOptions(options, ["url", "token", "author", "timeout", "patience", "fetch"]);
    const { url, token, author, timeout = 30_000, patience = 30_000, fetch } = options;
    checkMilliseconds({ timeout, patience });
    const address = addressOf(url, token);
    this.#wireNamespace = NAMESPACES.toWire(namespace).text;
    this.#namespace = namespace;
    this.#url = address.url;
    this.#patience = patience;
    const name = authorOf(author, address.isLocal);
    /** @type {Record<string, string>} */
    this.#author = name === "" ? {} : { "botwired-author": Buffer.from(name).toString("latin1") }; // UTF-8 on the wire
    this.#send = sender(address, timeout, fetch, ({ status, headers }) => {
      this.#state = headers.get("botwired-state") ?? (status < 500 ? undefined : this.#state); // an error of the server's without one may be a gateway's
    });
  }

  get namespace() {
    return this.#namespace;
  }

  get url() {
    return this.#url;
  }

  get state() {
    return this.#state;
  }

  /** @param {string} key @param {any} [fallback] @returns {Promise<any>} */
  async get(key, fallback) {
    const entry = await this.entry(key);
    return entry === undefined ? fallback : entry.value;
  }

  /** @param {string} key @returns {Promise<any>} */
  async entry(key) {
    return this.#read(KEYS.toWire(key).text);
  }

  /** @param {string} key */
  async has(key) {
    return (await this.entry(key)) !== undefined;
  }

  /** @param {string} key @param {unknown} value @param {WriteOptions} [options] */
  async set(key, value, options = {}) {
    checkOptions(options, ["ifVersion", "wait"]);
    const body = bodyOf(key, value);
    return this.#put(key, body, await this.#condition(KEYS.toWire(key).text, options), options);
  }

  /** @param {string} key @param {string} body @param {Record<string, string>} condition @param {WriteOptions} options */
  async #put(key, body, condition, { ifVersion, wait }) {
    const wireKey = KEYS.toWire(key).text;
    const headers = { "content-type": "application/json", ...this.#naming(), ...condition, ...prefer(wait) };
    const { answer } = await this.#exchange({ method: "PUT", path: this.#path(wireKey), headers, body, wait: wait ?? 0 });
    if (answer.status === 412) throw conflict(key, answer, await this.#read(wireKey), ifVersion);
    if (answer.status === 404) throw new Refused(404, answer.detail);
    return writtenOf(this.#about(wireKey, answer), this.#hasVersions);
  }

  /** @param {string} key @param {WriteOptions} [options] */
  async delete(key, options = {}) {
    checkOptions(options, ["ifVersion", "wait"]);
    if (options.ifVersion === ABSENT) throw new TypeError("delete takes no ifVersion: ABSENT: there would be nothing to delete");
    const wireKey = KEYS.toWire(key).text;
    const headers = { ...this.#naming(), ...(await this.#condition(wireKey, options)), ...prefer(options.wait) };
    const { answer, isRepeated } = await this.#exchange({ method: "DELETE", path: this.#path(wireKey), headers, wait: options.wait ?? 0 });
    if (answer.status === 404) {
      checkAbsence(answer);
      if (isRepeated && !this.#hasVersions) {
        await this.#read(wireKey);
        if (!this.#hasVersions) throw new Unavailable(`the answer to the delete of ${JSON.stringify(key)} was lost: it may have existed until then`);
      }
      return false;
    }
    if (answer.status === 412) throw conflict(key, answer, await this.#read(wireKey), options.ifVersion);
    if (this.#about(wireKey, answer).json().deleted !== true) throw answer.foreign();
    return true;
  }

  /** @param {string} key @param {(value: any) => any} change @returns {Promise<any>} */
  async update(key, change) {
    const called = time.now();
    return turns.take(JSON.stringify([this.#url, this.#wireNamespace, key]), `${this.#namespace}/${key}`, async () => {
      const contention = new Contention(key, this.#patience);
      for (;;) {
        const entry = await this.#read(KEYS.toWire(key).text, called);
        const value = await change(entry?.value);
        if (value === undefined) throw new TypeError("the function that update calls must return the new value, and has returned undefined");
        if (entry !== undefined && encode(value) === entry.text) return value;
        try {
          const ifVersion = entry === undefined ? ABSENT : entry.version;
          await this.#put(key, bodyOf(key, value), conditionOf(ifVersion), { ifVersion }); // a plain BotWire ignores the condition
          return value;
        } catch (error) {
          if (!(error instanceof Conflict)) throw error;
          await contention.pauseAfter(error);
        }
      }
    });
  }

  /** @param {string} key @param {string} text @param {{ separator?: string }} [options] @returns {Promise<string>} */
  async append(key, text, options = {}) {
    checkOptions(options, ["separator"]);
    const { separator = "\n" } = options;
    if (typeof text !== "string") throw new TypeError(`append takes a text, not ${shown(text)}: change other values with update`);
    if (typeof separator !== "string" || [...separator].length > MOST_SEPARATOR) {
      throw new TypeError(`separator must be a text of at most ${MOST_SEPARATOR} characters`);
    }
    return this.update(key, (value = "") => {
      if (typeof value !== "string") throw new TypeError(`${JSON.stringify(key)} holds no text to append to: change it with update`);
      return value === "" ? text : value + separator + text;
    });
  }

  /** @param {string} key @returns {Promise<any[]>} */
  async history(key) {
    const { answer, wireKey } = await this.#states(key);
    return answer.status === 404 ? [] : revisionsOf(answer, wireKey);
  }

  /**
   * The undo is conditional: a second attempt would undo the first.
   * @param {string} key
   * @param {string | { name?: string | undefined }} [to]
   * @returns {Promise<any>}
   */
  async undo(key, to) {
    const name = typeof to === "object" ? to?.name : to;
    if (to !== undefined && typeof name !== "string") throw new TypeError("no undo leads to this state: it has no name");
    const { answer: shown, wireKey } = await this.#states(key);
    if (shown.status === 404) throw new Refused(404, shown.detail);
    const path = this.#surface("undo", wireKey, name === undefined ? {} : { to: name });
    const headers = { ...this.#author, ...given("if-match", tagOf(shown, true) || lostTag()) };
    const { answer, isRepeated } = await this.#exchange({ method: "POST", path, headers });
    if (answer.status === 412) {
      const present = await this.#read(wireKey);
      if (!isRepeated) throw conflict(key, answer, present, undefined);
      throw new Unavailable(
        `the answer to an undo of ${JSON.stringify(key)} was lost, and the entry has changed since: read it to see whether the undo was made`,
      );
    }
    if (answer.status === 404) throw new Refused(404, answer.detail);
    return revisionOf(answer.json().now, answer, wireKey);
  }

  /** @param {string} [prefix] */
  async keys(prefix = "") {
    const { answer } = await this.#exchange({ method: "GET", path: `/memory/${this.#wireNamespace}?limit=${LIST_LIMIT}` });
    if (answer.status !== 200) throw new Refused(answer.status, answer.detail);
    let found = keysOf(answer);
    if (found.length >= LIST_LIMIT) found = [...found, ...(await this.#more(new Set(found)))];
    else if (answer.headers.has("botwired-list")) this.#warn();
    const names = [];
    for (const wireKey of found) {
      const name = await this.#name(wireKey);
      if (name?.startsWith(prefix.replace(/\*$/, ""))) names.push(name);
    }
    return names;
  }

  /**
   * The keys that a daemon knows beyond BotWire's list, by name.
   * @param {ReadonlySet<string>} known
   */
  async #more(known) {
    /** @type {string[]} */
    const more = [];
    for (let after = ""; this.#hasVersions; ) {
      const query = new URLSearchParams({ namespace: this.#wireNamespace, after, limit: String(PAGE) });
      const { answer } = await this.#exchange({ method: "GET", path: `/_botwired/entries?${query}` });
      if (answer.status !== 200) break;
      const page = pageOf(answer, after);
      for (const key of page.keys) if (!known.has(key)) more.push(key);
      after = page.next;
      if (after !== "") continue;
      if (!page.isComplete) this.#warn();
      return more;
    }
    this.#warn();
    return more;
  }

  #warn() {
    const text = `the list of ${JSON.stringify(this.#namespace)} may lack keys: BotWire lists no more than 1,000`;
    process.emitWarning(new Incomplete(text));
  }

  /**
   * The name of a key on the wire. A digest's is in its value; undefined: the entry is gone.
   * @param {string} wireKey
   */
  async #name(wireKey) {
    return isDigest(wireKey) ? (await this.#read(wireKey))?.key : KEYS.fromWire(wireKey);
  }

  /** @param {string} wireKey @param {number} [called] */
  async #read(wireKey, called) {
    const { answer } = await this.#exchange({ method: "GET", path: this.#path(wireKey) }, called);
    if (answer.status === 404) return checkAbsence(answer);
    return entryOf(this.#about(wireKey, answer), wireKey, this.#hasVersions);
  }

  /**
   * The states of an entry, and its key on the wire.
   * @param {string} key
   */
  async #states(key) {
    const wireKey = KEYS.toWire(key).text;
    const { answer } = await this.#exchange({ method: "GET", path: this.#surface("revisions", wireKey) });
    if (answer.status === 404 && answer.detail === "Not Found") {
      throw new Unsupported("a history needs a botwired: the server at this URL keeps no versions");
    }
    return { answer, wireKey };
  }

  /**
   * A 200 that names the entry. One that names another entry confirms nothing.
   * @param {string} wireKey
   * @param {Answer} answer
   */
  #about(wireKey, answer) {
    const { namespace, key } = answer.json();
    if (namespace !== this.#wireNamespace || key !== wireKey) throw answer.foreign();
    return answer;
  }

  /**
   * The headers of a condition. A server that would ignore them is not sent the write at all.
   * @param {string} wireKey
   * @param {WriteOptions} options
   */
  async #condition(wireKey, options) {
    if (!("ifVersion" in options)) return {};
    const { ifVersion } = options;
    if (ifVersion === undefined) {
      throw new Unsupported("ifVersion is undefined: plain BotWire keeps no versions. Leave ifVersion out to write on no condition");
    }
    if (ifVersion !== ABSENT && !(typeof ifVersion === "string" && /^[!-~]*$/.test(ifVersion))) {
      throw new TypeError(`ifVersion must be an entry's version or ABSENT, not ${shown(ifVersion)}`);
    }
    if (!this.#hasVersions) await this.#read(wireKey);
    if (!this.#hasVersions) throw new Unsupported("ifVersion needs a botwired: the server at this URL keeps no versions");
    return conditionOf(ifVersion);
  }

  /** The headers that name the author and the write. A daemon makes a named write once. */
  #naming() {
    return { ...this.#author, ...given("idempotency-key", randomUUID()) };
  }

  /** @param {Request} request @param {number} [called] */
  async #exchange(request, called = time.now()) {
    const outcome = await exchange(this.#send, request, this.#patience, this.#url, called);
    this.#hasVersions ||= isFromBotwired(outcome.answer.headers);
    return outcome;
  }

  /** @param {string} wireKey */
  #path(wireKey) {
    return `/memory/${this.#wireNamespace}/${segment(wireKey)}`;
  }

  /** @param {string} path @param {string} wireKey @param {Record<string, string>} [more] */
  #surface(path, wireKey, more = {}) {
    return `/_botwired/${path}?${new URLSearchParams({ namespace: this.#wireNamespace, key: wireKey, ...more })}`;
  }
}

/**
 * A key as a segment of a path: names on the wire need no escape in one. fetch takes two of them for folders, escaped or not,
 * and would ask for another path.
 * @param {string} wireKey
 */
function segment(wireKey) {
  if (wireKey === "." || wireKey === "..") throw new TypeError(`fetch cannot ask for the key ${JSON.stringify(wireKey)}: in a URL it is a folder`);
  return wireKey;
}

/**
 * The body of a PUT.
 * @param {string} key
 * @param {unknown} value
 */
function bodyOf(key, value) {
  const text = encode(value);
  return JSON.stringify({ value: KEYS.toWire(key).isDigest ? wrap(key, text) : text });
}

/**
 * The headers of a condition.
 * @param {WriteOptions["ifVersion"]} ifVersion
 * @returns {Record<string, string>}
 */
function conditionOf(ifVersion) {
  if (ifVersion === undefined) return {};
  return typeof ifVersion === "string" ? given("if-match", ifVersion || lostTag()) : given("if-none-match", "*");
}

/**
 * The header that asks the daemon to wait for upstream (RFC 7240), in whole seconds.
 * @param {number | undefined} wait
 * @returns {Record<string, string>}
 */
function prefer(wait) {
  if (wait === undefined) return {};
  checkMilliseconds({ wait });
  return { prefer: `wait=${Math.ceil(wait / 1000)}` };
}

/**
 * Refuses a 404 that does not speak of the key: another server at this URL knows nothing of entries.
 * @param {Answer} answer
 */
function checkAbsence({ detail }) {
  if (!detail.startsWith("Key not found")) throw new BotwiredError(`the answer is not one of BotWire's: ${detail} (HTTP 404)`);
  return undefined;
}

/**
 * A header that a gateway may drop, and the daemon's own that says the same.
 * @param {string} name
 * @param {string} value
 */
function given(name, value) {
  return { [name]: value, [`botwired-${name}`]: value };
}

/** @returns {never} */
function lostTag() {
  throw new BotwiredError(
    "the server is a botwired, and its answers have no version: a gateway on the way drops the headers ETag and Botwired-ETag. Have it leave " +
      "them, or write on no condition",
  );
}

/**
 * The error of a 412. If the entry is as the condition names it, no repetition would help.
 * @param {string} key
 * @param {Answer} answer
 * @param {{ version?: string | undefined } | undefined} present
 * @param {WriteOptions["ifVersion"]} sent
 */
function conflict(key, answer, present, sent) {
  if (typeof sent === "string" && present?.version === sent) {
    return new BotwiredError(
      `${JSON.stringify(key)} is not written, although it still has the version ${sent}: a gateway on the way changes the conditions of ` +
        "requests. Have it leave the headers If-Match and Botwired-If-Match alone",
    );
  }
  return new Conflict(`${JSON.stringify(key)} is not written: ${answer.detail}`, present?.version);
}

/**
 * A value for people, also one that JSON does not have.
 * @param {unknown} value
 */
function shown(value) {
  return typeof value === "string" ? JSON.stringify(value) : inspect(value);
}

/** @param {Record<string, unknown>} times */
function checkMilliseconds(times) {
  for (const [name, value] of Object.entries(times)) {
    if (typeof value !== "number" || !(value >= 0) || (name === "timeout" && value === 0) || (name === "wait" && value === Infinity)) {
      throw new TypeError(`${name} must be a number of milliseconds, not ${shown(value)}`);
    }
  }
}

/**
 * Refuses options that do not exist. BotWire takes a ttl and ignores it: the caller would never know.
 * @param {object} options
 * @param {string[]} known
 */
function checkOptions(options, known) {
  if (!isObject(options)) throw new TypeError("options must be an object");
  const unknown = Object.keys(options).filter((name) => !known.includes(name));
  if (unknown.some((name) => name.startsWith("ttl"))) {
    throw new TypeError(
      "there is no ttl: BotWire ignores it, and keeps the value. Store the time of expiry in the value, and compare it when you read; or " +
        "delete the entry",
    );
  }
  if (unknown.length > 0) throw new TypeError(`there is no option ${unknown.join(", ")}: there are ${known.join(", ")}`);
}

module.exports = { ABSENT, Memory };
