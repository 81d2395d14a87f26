"use strict";

// Updates of one entry take turns within a process. It makes no promise to other processes: versions do that. Without
// turns, 50 updates of one entry at once would conflict with each other 1,225 times.

const { AsyncLocalStorage } = require("node:async_hooks");
const { BotwiredError } = require("./errors.js");

/** The turns that a caller has, so that it does not wait for itself. @type {AsyncLocalStorage<{ place: string, isOver: boolean }[]>} */
const had = new AsyncLocalStorage();

/** The last that takes a turn, by entry. @type {Map<string, Promise<void>>} */
const last = new Map();

/**
 * Calls a function when all that have asked before are done.
 * @template T
 * @param {string} place
 * @param {() => Promise<T>} work
 * @returns {Promise<T>}
 */
async function take(place, work) {
  const outer = had.getStore() ?? [];
  if (outer.some((turn) => turn.place === place && !turn.isOver)) {
    throw new BotwiredError("the function that update calls has called update or append of the same entry, which would wait for itself");
  }
  const turn = { place, isOver: false };
  const before = last.get(place);
  /** @type {() => void} */
  let end = () => {};
  const mine = new Promise((/** @type {(value: void) => void} */ resolve) => {
    end = resolve;
  });
  last.set(place, mine);
  try {
    await before;
    return await had.run([...outer, turn], work);
  } finally {
    turn.isOver = true;
    end();
    if (last.get(place) === mine) last.delete(place);
  }
}

module.exports = { take };
