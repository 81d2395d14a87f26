"use strict";

// Tests put a clock of their own in place of these.
module.exports = {
  /** Milliseconds, which only grow. */
  now: () => performance.now(),

  /** @param {number} milliseconds @returns {Promise<void>} */
  sleep: (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds)),
};
