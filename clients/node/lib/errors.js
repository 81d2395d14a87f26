"use strict";

/** A request of the memory has failed. It is the base of all the errors below. */
class BotwiredError extends Error {
  /** @param {string} message @param {ErrorOptions} [options] */
  constructor(message, options) {
    super(message, options);
    this.name = new.target.name;
  }
}

class Unavailable extends BotwiredError {}

class Unauthorized extends BotwiredError {}

class Refused extends BotwiredError {
  /** @param {number} status @param {string} detail */
  constructor(status, detail) {
    super(`${detail} (HTTP ${status})`);
    this.status = status;
    this.detail = detail;
  }
}

class Conflict extends BotwiredError {
  /** @param {string} message @param {string} [version] */
  constructor(message, version) {
    super(message);
    this.version = version;
  }
}

class Unsupported extends BotwiredError {}

/** A warning, which no call throws: process.emitWarning gets it. */
class Incomplete extends Error {
  /** @param {string} message */
  constructor(message) {
    super(message);
    this.name = "Incomplete";
  }
}

module.exports = { BotwiredError, Conflict, Incomplete, Refused, Unauthorized, Unavailable, Unsupported };
