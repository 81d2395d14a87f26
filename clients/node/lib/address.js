"use strict";

// Where the memory is, with which token it is asked, and by which name the program goes.
const DEFAULT_URL = "http://127.0.0.1:2689";
const AUTHOR_LIMIT = 64;

/**
 * The URL, else BOTWIRE_URL, else the daemon's usual address. A TypeError says what is wrong with it, without showing it: it
 * may have a token.
 * @param {string | undefined} text
 * @param {string | undefined} token
 */
function addressOf(text, token) {
  const parts = split(text || process.env.BOTWIRE_URL || DEFAULT_URL);
  const { protocol, username, password, hostname } = parts;
  if (protocol === "unix:") {
    throw new TypeError("fetch cannot reach a Unix socket: have the daemon listen on loopback, too, such as --listen 127.0.0.1:2689");
  }
  if (!["http:", "https:"].includes(protocol) || hostname === "" || parts.search || parts.hash) {
    throw new TypeError(`a URL must be such as ${DEFAULT_URL}`);
  }
  const url = `${protocol}//${parts.host}${parts.pathname.replace(/\/+$/, "")}`;
  let authorization;
  if (token !== undefined) authorization = bearer(token);
  else if (username || password) authorization = `Basic ${Buffer.from(`${unescaped(username)}:${unescaped(password)}`).toString("base64")}`;
  return { url, authorization, isLocal: /^(?:localhost|127\.\d+\.\d+\.\d+|\[::1\])$/.test(hostname) };
}

/** @param {string} text */
function split(text) {
  try {
    return new URL(text);
  } catch {
    throw new TypeError(
      `the URL has no valid host or port: it must be such as ${DEFAULT_URL}. A token in it must have %2F for a slash, %3F for a question ` +
        "mark and %23 for a number sign",
    );
  }
}

/** @param {string} text */
function unescaped(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    throw new TypeError("the user and the password of a URL must be percent-encoded UTF-8");
  }
}

/** @param {string} token */
function bearer(token) {
  if (typeof token !== "string" || !/^[ -~]+$/.test(token) || token.trim() === "") {
    throw new TypeError("a token must be of printable ASCII characters, without a line break");
  }
  return `Bearer ${token.trim()}`;
}

/**
 * The name of this program in the history; "" if it has none. Only a local server learns the script's.
 * @param {string | undefined} author
 * @param {boolean} isLocal
 */
function authorOf(author, isLocal) {
  if (author !== undefined) {
    if (typeof author !== "string" || !/^(?:[^\p{C}\p{Z}]| ){1,64}$/u.test(author)) {
      throw new TypeError(`author must have 1 to ${AUTHOR_LIMIT} printable characters, not ${JSON.stringify(author)}`);
    }
    return author;
  }
  const name = process.env.BOTWIRED_AUTHOR || (isLocal ? program(process.argv[1] ?? "") : "");
  return name.replace(/[^ -~]/gu, "?").trim().slice(0, AUTHOR_LIMIT);
}

/**
 * The name of a script. index.js is the program of its folder.
 * @param {string} script
 */
function program(script) {
  const [folder = "", file = ""] = ["", ...script.split(/[\\/]/)].slice(-2);
  const name = file.replace(/\.[cm]?[jt]s$/, "");
  return name === "index" ? folder : name;
}

module.exports = { addressOf, authorOf };
