"use strict";

// One attempt of a request, by fetch.
const { version } = require("../package.json");
const { BotwiredError } = require("./errors.js");

/** How long an answer may be, so that a server cannot fill the caller's memory. */
const MAX_BYTES = 64 << 20;

/** Errors of a connection that was not made, as Node and Bun name them. */
const NOT_CONNECTED = new Set([
  "ConnectionRefused", "EADDRNOTAVAIL", "EAI_AGAIN", "ECONNREFUSED", "EHOSTUNREACH", "ENETUNREACH", "ENOTFOUND", "FailedToOpenSocket",
  "UND_ERR_CONNECT_TIMEOUT",
]);
/** Those of TLS that was not agreed: a certificate that is not trusted, and a server that speaks plain HTTP. */
const NOT_AGREED = /CERT|EPROTO|UNABLE_TO_VERIFY|WRONG_VERSION_NUMBER|PACKET_LENGTH_TOO_LONG/;

/**
 * @typedef {object} Request
 * @property {string} method
 * @property {string} path escaped, with the query
 * @property {Record<string, string>} [headers]
 * @property {string} [body]
 * @property {number} [wait] milliseconds for which the server may wait by itself, on top of the timeout of an attempt
 *
 * @typedef {{ reason: string, wasSent: boolean, error: unknown }} Lost an attempt without an answer; the error is fetch's own
 * @typedef {InstanceType<typeof ServerAnswer>} Answer
 */

/** The server's answer. */
class ServerAnswer {
  /** @param {number} status @param {Headers} headers @param {Uint8Array} body */
  constructor(status, headers, body) {
    this.status = status;
    this.headers = headers;
    this.body = body;
  }

  /**
   * The body, which must be a JSON object: every answer of BotWire's is one.
   * @returns {Record<string, unknown>}
   */
  json() {
    const body = this.#parsed();
    if (!isObject(body)) throw this.foreign();
    return body;
  }

  /** The error of an answer that BotWire does not give. */
  foreign() {
    return new BotwiredError(`the answer is not one of BotWire's (HTTP ${this.status}): is something else at this URL?`);
  }

  /** The reason of an error, in the server's words. */
  get detail() {
    const body = this.#parsed();
    const detail = isObject(body) ? body.detail : undefined;
    if (detail === undefined || detail === null) {
      const text = new TextDecoder().decode(this.body.subarray(0, 200));
      return `the server gives no reason that botwired understands: ${JSON.stringify(text)}`;
    }
    return typeof detail === "string" ? detail : JSON.stringify(detail);
  }

  /** @returns {unknown} */
  #parsed() {
    try {
      return JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(this.body));
    } catch {
      return undefined;
    }
  }
}

/** @param {unknown} value @returns {value is Record<string, unknown>} */
function isObject(value) {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/**
 * Returns what sends one attempt of a request. `note` is called with each answer.
 * @param {{ url: string, authorization: string | undefined }} address
 * @param {number} timeout in milliseconds, of a whole attempt
 * @param {typeof globalThis.fetch | undefined} given
 * @param {(answer: Answer) => void} note
 * @returns {(request: Request) => Promise<Answer | Lost>}
 */
function sender(address, timeout, given, note) {
  return async ({ method, path, headers = {}, body, wait = 0 }) => {
    const fetch = given ?? globalThis.fetch;
    const limit = timeout + wait;
    const sent = new Headers({ accept: "application/json", "user-agent": `botwired-node/${version}`, ...headers });
    if (address.authorization !== undefined) sent.set("authorization", address.authorization);
    /** @type {RequestInit} */
    const options = { method, headers: sent, redirect: "manual", signal: AbortSignal.timeout(Math.min(Math.ceil(limit), 2 ** 31 - 1)) };
    if (body !== undefined) options.body = body;
    try {
      const response = await fetch(address.url + path, options);
      const answer = new ServerAnswer(response.status, response.headers, await read(response));
      note(answer);
      return answer;
    } catch (error) {
      return lostBy(error, limit);
    }
  };
}

/** @param {Response} response */
async function read(response) {
  if (response.body === null) return new Uint8Array();
  /** @type {Uint8Array[]} */
  const pieces = [];
  let length = 0;
  for (const reader = response.body.getReader(); ; ) {
    const { done, value } = await reader.read();
    if (done) return new Uint8Array(Buffer.concat(pieces));
    pieces.push(value);
    length += value.length;
    if (length > MAX_BYTES) {
      reader.cancel().catch(() => {}); // the connection is of no more use, however it ends
      throw new BotwiredError(`the answer is longer than ${MAX_BYTES >> 20} MiB: is something else at this URL?`);
    }
  }
}

/**
 * What an error of fetch says about the attempt.
 * @param {unknown} error
 * @param {number} limit
 * @returns {Lost}
 */
function lostBy(error, limit) {
  if (error instanceof BotwiredError) throw error;
  const causes = causesOf(error);
  const codes = causes.map(({ code }) => String(code ?? ""));
  if (codes.some((code) => code.startsWith("Z_") || code === "ZlibError")) {
    throw new BotwiredError("the answer is not one of BotWire's (it cannot be decompressed): is something else at this URL?", { cause: error });
  }
  const denied = causes.find(({ name }) => name === "NotCapable"); // by Deno, to the whole program
  if (denied !== undefined) throw new BotwiredError(String(denied.message), { cause: error });
  if (causes.some(({ name }) => name === "TimeoutError")) return { reason: `the answer did not end within ${limit / 1000} s`, wasSent: true, error };
  if (causes.some(({ message }) => /^bad port$|port \d+ are blocked/.test(message ?? ""))) {
    return { reason: "fetch blocks this port, so a daemon for it must listen on another one", wasSent: false, error };
  }
  const reason = causes.findLast(({ message, code }) => message || code);
  const isConnected = !codes.some((code) => NOT_CONNECTED.has(code) || NOT_AGREED.test(code)) && !causes.some(({ message }) => /client error \(Connect\)/.test(message ?? ""));
  return { reason: String(reason?.message || reason?.code || error), wasSent: isConnected, error };
}

/**
 * An error, and what has caused it.
 * @param {unknown} error
 * @returns {{ name?: string, message?: string, code?: unknown }[]}
 */
function causesOf(error) {
  /** @type {{ name?: string, message?: string, code?: unknown }[]} */
  const causes = [];
  for (let each = error; typeof each === "object" && each !== null; each = /** @type {{ cause?: unknown }} */ (each).cause) causes.push(each);
  return causes;
}

module.exports = { isObject, sender };
