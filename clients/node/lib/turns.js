"use strict";

// Updates of one entry take turns within a process. It makes no promise to other processes: versions do that. Without
// turns, 50 updates of one entry at once would conflict with each other 1,225 times.
//
// An update may be made within one of another entry. Two that are nested crosswise would wait for each other: the second to
// ask is refused. What an update waits for otherwise, such as a queue, is not seen here.

const { AsyncLocalStorage } = require("node:async_hooks");
const { BotwiredError } = require("./errors.js");

class Turn {
  isOver = false;
  /** The turns that the holder has asked for meanwhile, and that are not over. @type {Set<Turn>} */
  inner = new Set();
  /** The turn that it waits for. @type {Turn | undefined} */
  before;

  /** @param {string} name */
  constructor(name) {
    this.name = name;
  }

  /** @type {() => void} */
  end = () => {};
  ended = new Promise((/** @type {(value: void) => void} */ resolve) => {
    this.end = resolve;
  });
}

/** The turns that the caller has. @type {AsyncLocalStorage<Turn[]>} */
const had = new AsyncLocalStorage();

/** The last that takes a turn, by entry. @type {Map<string, Turn>} */
const last = new Map();

/**
 * Calls a function when all that have asked before are done.
 * @template T
 * @param {string} place
 * @param {string} name of the entry, for people
 * @param {() => Promise<T>} work
 * @returns {Promise<T>}
 */
async function take(place, name, work) {
  const outer = (had.getStore() ?? []).filter((each) => !each.isOver);
  const turn = new Turn(name);
  turn.before = last.get(place);
  const awaited = awaitedBy(turn, outer);
  if (awaited !== undefined) {
    throw new BotwiredError(
      `the update of ${JSON.stringify(name)} within one of ${JSON.stringify(awaited.name)} would wait for itself: make one after the ` +
        "other, or nest them in the same order everywhere",
    );
  }
  last.set(place, turn);
  for (const each of outer) each.inner.add(turn);
  try {
    await turn.before?.ended;
    turn.before = undefined;
    return await had.run([...outer, turn], work);
  } finally {
    turn.isOver = true;
    turn.end();
    for (const each of outer) each.inner.delete(turn);
    if (last.get(place) === turn) last.delete(place);
  }
}

/**
 * The turn that the caller has, and whose end a new turn would wait for.
 * @param {Turn} turn
 * @param {Turn[]} outer
 */
function awaitedBy(turn, outer) {
  if (outer.length === 0) return undefined;
  const seen = new Set();
  for (const ahead = [turn.before]; ahead.length > 0; ) {
    const each = ahead.pop();
    if (each === undefined || each.isOver || seen.has(each)) continue;
    if (outer.includes(each)) return each;
    seen.add(each);
    ahead.push(each.before, ...each.inner);
  }
  return undefined;
}

module.exports = { take };
