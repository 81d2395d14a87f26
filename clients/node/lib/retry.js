"use strict";

// The rule that says which attempts are made again, and when. clients/rules.json holds both packages to it.
const { Refused, Unauthorized, Unavailable } = require("./errors.js");
const time = require("./time.js");

/** @import { Answer, Lost, Request } from "./http.js" */

// All times are milliseconds.

/** Before the second attempt. Each further pause is twice as long, up to LONGEST_PAUSE. */
const FIRST_PAUSE = 50;
const LONGEST_PAUSE = 1000;

/** Before a change is tried again that somebody else was faster with: about what a write takes. */
const FIRST_CONFLICT_PAUSE = 2;

/** For a server that this process has never had an answer of, while no connection is made: as long as a daemon takes to start. */
const FIRST_CONTACT_PATIENCE = 500;

/** For a read that only upstream could answer, and upstream is away: the daemon itself has tried that long. */
const UPSTREAM_PATIENCE = 5000;
/** How the daemon's detail begins in that case. */
const UNKNOWN = "not known here";

/** The server asks to try again later, and has not carried out any of the request. */
const NOTHING_DONE = new Set([429, 503]);
/** A server on the way does not know what has become of the request. */
const MAYBE_DONE = new Set([502, 504]);

/**
 * What the memories of a server know of it. All memories of the process share it: programs with a memory for each session
 * wait once, too.
 * @typedef {object} Contact
 * @property {boolean} isMade the server has answered this process
 * @property {{ since: number, at: number, error: Error } | undefined} [failure] the latest call that has spent its whole patience, or
 *   found no server, if no answer has ended one since: when it began, and when it gave up
 * @property {number | undefined} [outageSince] when the first read began that upstream could not answer, until a later one has had
 *   upstream's answer
 */

/** @type {Map<string, Contact>} */
const contacts = new Map();

/** @param {string} server @returns {Contact} */
function contactOf(server) {
  const contact = contacts.get(server) ?? { isMade: false };
  contacts.set(server, contact);
  return contact;
}

/**
 * Sends a request until it is answered, for up to `patience` and its wait. Every request of the memory may be repeated. Reads
 * that only upstream could answer wait out the beginning of an outage; later ones fail at once. The latest attempt decides how
 * long the call lasts: a daemon that has answered, and restarts, has the whole patience.
 *
 * It returns an answer of 2xx, 404 or 412, and throws the error for any other; `isRepeated` says that an earlier attempt
 * without an answer may have been carried out.
 * @param {(request: Request) => Promise<Answer | Lost>} send
 * @param {Request} request
 * @param {number} patience
 * @param {string} server
 * @param {number} called when the call was made: one that has waited for its turn has waited for the server, too, if the call
 *   before it has just failed so. Many such calls do not fail one after another
 */
async function exchange(send, request, patience, server, called) {
  const contact = contactOf(server);
  const { failure } = contact;
  let began = time.now();
  if (failure !== undefined && failure.at > called && began - failure.at < LONGEST_PAUSE) {
    const spent = began - Math.max(called, failure.since);
    if (spent >= patience) throw new Unavailable(failure.error.message, { cause: failure.error.cause });
    began -= spent;
  }
  let pause = FIRST_PAUSE;
  let isRepeated = false;
  let kept = "";
  for (;;) {
    const attempt = await send(request);
    const answer = "status" in attempt ? attempt : undefined;
    if (answer !== undefined) {
      contact.isMade = true;
      kept = pendingIn(answer) || kept;
    }
    if (answer !== undefined && !isPassing(request, answer)) {
      contact.failure = undefined;
      if (answer.headers.get("cache-status")?.includes("fwd=")) contact.outageSince = undefined;
      throwFor(answer, kept);
      return { answer, isRepeated };
    }
    isRepeated ||= "status" in attempt ? MAYBE_DONE.has(attempt.status) : attempt.wasSent;
    let limit = patience + (request.wait ?? 0);
    if (answer?.status === 503 && answer.detail.startsWith(UNKNOWN)) {
      contact.outageSince ??= began;
      limit = Math.min(limit, Math.max(0, contact.outageSince + UPSTREAM_PATIENCE - began));
    }
    const isAbsent = answer === undefined && !contact.isMade && !isRepeated;
    if (isAbsent) limit = Math.min(limit, FIRST_CONTACT_PATIENCE);
    const left = began + limit - time.now();
    const wanted = answer === undefined ? 0 : retryAfter(answer);
    if (left <= 0 || (answer !== undefined && wanted > left && (answer.status === 429 || pendingIn(answer) !== ""))) {
      const error = unavailable(attempt, isAbsent, limit - Math.max(left, 0), server, kept);
      if (left <= 0 && (isAbsent || limit >= patience) && kept === "") contact.failure = { since: began, at: time.now(), error };
      throw error;
    }
    await time.sleep(Math.min(left, Math.max(wanted, pause * (0.5 + Math.random() / 2))));
    pause = Math.min(pause * 2, LONGEST_PAUSE);
  }
}

/** Spaces out the attempts of a change that others are faster with, and ends them. */
class Contention {
  #key;
  #patience;
  #began = time.now();
  #attempts = 0;

  /** @param {string} key @param {number} patience */
  constructor(key, patience) {
    this.#key = key;
    this.#patience = patience;
  }

  /**
   * Pauses before the next attempt, or throws the error that ends the attempts.
   * @param {Error} conflict
   */
  async pauseAfter(conflict) {
    this.#attempts++;
    if (time.now() - this.#began >= this.#patience) {
      throw new Unavailable(
        `${JSON.stringify(this.#key)} was not changed: in ${this.#attempts} attempts over ${this.#patience / 1000} s, others have written it ` +
          "each time. If nobody else does, a gateway on the way changes the conditions of requests",
        { cause: conflict },
      );
    }
    await time.sleep(Math.random() * Math.min(FIRST_CONFLICT_PAUSE * 2 ** this.#attempts, LONGEST_PAUSE));
  }
}

/** @param {Request} request @param {Answer} answer */
function isPassing(request, answer) {
  if (!MAYBE_DONE.has(answer.status)) return NOTHING_DONE.has(answer.status);
  return request.method === "GET" || (pendingIn(answer) !== "" && "idempotency-key" in (request.headers ?? {}));
}

/**
 * What a daemon's 504 says of a write that upstream has not confirmed. "" of any other answer.
 * @param {Answer} answer
 */
function pendingIn({ status, headers }) {
  const [, seq] = (status === 504 && /^pending;.*\bseq=(\d+)/.exec(headers.get("botwired-write") ?? "")) || [];
  return seq === undefined ? "" : `: the write is durable in the daemon, and pending. Its receipt is /_botwired/receipts/${seq}`;
}

/**
 * The milliseconds that the server asks for. A date, which no BotWire sends, counts as none.
 * @param {Answer} answer
 */
function retryAfter(answer) {
  const text = answer.headers.get("retry-after") ?? "";
  return /^\d+$/.test(text) ? Number(text) * 1000 : 0;
}

/** @param {Answer} answer @param {string} kept */
function throwFor({ status, detail }, kept) {
  if ((status >= 200 && status < 300) || status === 404 || status === 412) return;
  if (status === 401) {
    throw new Unauthorized(`${detail} (HTTP 401): pass { token }, or put it into the URL, as in http://x:TOKEN@host:2689`);
  }
  if (MAYBE_DONE.has(status)) throw new Unavailable(`${detail} (HTTP ${status})${kept || ": the write may have been made, so read the entry"}`);
  throw new Refused(status, detail);
}

/** @param {Answer | Lost} attempt @param {boolean} isAbsent @param {number} limit @param {string} server @param {string} kept */
function unavailable(attempt, isAbsent, limit, server, kept) {
  if (isAbsent && !("status" in attempt)) {
    return new Unavailable(
      `there is no botwired at ${server}: ${attempt.reason}. Start one: \`botwired run -- COMMAND\` runs it beside a command, ` +
        "and `botwired serve` by itself",
      { cause: attempt.error },
    );
  }
  if (!("status" in attempt)) {
    return new Unavailable(
      `no answer from ${server} for ${limit / 1000} s: ${attempt.reason}. Is botwired running there? botwired status tells${kept}`,
      { cause: attempt.error },
    );
  }
  const seconds = Math.round(limit / 100) / 10;
  const waited = seconds > 0 ? `, and no other answer for ${seconds} s` : "";
  return new Unavailable(`${attempt.detail} (HTTP ${attempt.status}${waited})${kept}`);
}

module.exports = { Contention, contacts, exchange };
