"use strict";

// Values and the texts that BotWire stores for them: the rules of the Python package's _values.py, so that each package
// reads what the other one writes.
//
// - An array or an object is compact JSON. A text that begins with [ or { and is JSON reads as one.
// - A number, true, false or null is JSON, too. A text reads as one only if a package would have written exactly this
//   text: 5 and 5.0 read as 5, while 1.10 and 007 stay texts. An integer that a number cannot hold reads as a BigInt.
// - A string is stored as it is, unless it would read as something else, or has a lone surrogate, which is no Unicode:
//   then it is stored as a JSON string.
const { randomUUID } = require("node:crypto");

const LONE_SURROGATE = /\p{Surrogate}/u;
const INTEGER = /^-?(?:0|[1-9]\d*)$/;
const FLOAT = /^-?\d+(?:\.\d+)?(?:e[+-]\d+)?$/;
/** What JSON.parse would round or refuse, and Python reads. */
const BEYOND_NUMBERS = /\d{16}|NaN|Infinity/;
/** A string is none of its own: a long one exceeds what a regular expression can match with a choice for each character. */
const TOKEN = /\\.|"|-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?|NaN|-?Infinity/gs;

/** Python reads and writes no longer integers. */
const MOST_DIGITS = 4300;
/** Python reads values that are some 1,000 deep. */
const MOST_LEVELS = 500;

/**
 * The text to store for a value. A TypeError or a RangeError says what JSON cannot hold.
 * @param {unknown} value
 */
function encode(value) {
  return typeof value === "string" && isStoredAsItIs(value) ? value : toJson(value, "", []);
}

/**
 * The value that a stored text stands for.
 * @param {string} text
 * @returns {unknown}
 */
function decode(text) {
  if (text.startsWith("[") || text.startsWith("{")) return parsed(text);
  if (text === "true" || text === "false" || text === "null") return JSON.parse(text);
  if (text.startsWith('"')) return decodeQuoted(text);
  if (INTEGER.test(text) && text !== "-0") return text.length > MOST_DIGITS ? text : integer(text);
  return FLOAT.test(text) && floatText(Number(text)) === text ? Number(text) : text;
}

/** @param {string} text */
function decodeQuoted(text) {
  const value = parsed(text);
  if (value === text) return text; // it is no JSON
  return typeof value === "string" && !isStoredAsItIs(value) && JSON.stringify(value) === text ? value : text;
}

/** @param {string} text */
function isStoredAsItIs(text) {
  return decode(text) === text && !LONE_SURROGATE.test(text);
}

/**
 * The value of a JSON text, or the text itself if it is none.
 * @param {string} text
 * @returns {unknown}
 */
function parsed(text) {
  try {
    return BEYOND_NUMBERS.test(text) ? parseExactly(text) : JSON.parse(text);
  } catch {
    return text;
  }
}

/**
 * JSON.parse, with each number that it would round as a BigInt, and with Python's NaN and Infinity.
 * @param {string} text
 */
function parseExactly(text) {
  const mark = randomUUID();
  let isInString = false;
  const marked = text.replace(TOKEN, (token) => {
    if (token === '"') isInString = !isInString;
    if (isInString) return token;
    const isOdd = /^(?:NaN|-?Infinity)$/.test(token) || (INTEGER.test(token) && !Number.isSafeInteger(Number(token)));
    return isOdd ? `"${mark}${token}"` : token;
  });
  return JSON.parse(marked, (key, value) => {
    if (key.startsWith(mark)) throw new SyntaxError("a key is no string");
    if (typeof value !== "string" || !value.startsWith(mark)) return value;
    const token = value.slice(mark.length);
    if (token.length > MOST_DIGITS) throw new SyntaxError("an integer is too long");
    return INTEGER.test(token) ? integer(token) : Number(token);
  });
}

/** @param {string} text */
function integer(text) {
  return Number.isSafeInteger(Number(text)) ? Number(text) : BigInt(text);
}

/**
 * A number as Python writes its float: by that text, either language knows it again.
 * @param {number} number
 */
function floatText(number) {
  if (!Number.isFinite(number)) return "";
  if (Object.is(number, -0)) return "-0.0";
  const [mantissa = "", exponent = ""] = number.toExponential().split("e");
  const power = Number(exponent);
  if (power < -4 || power >= 16) return `${mantissa}e${power < 0 ? "-" : "+"}${String(Math.abs(power)).padStart(2, "0")}`;
  return Number.isInteger(number) ? `${number}.0` : String(number);
}

/**
 * @param {unknown} value
 * @param {string} path of the value in the whole one, for people
 * @param {object[]} within the arrays and objects that it is in
 * @returns {string}
 */
function toJson(value, path, within) {
  switch (typeof value) {
    case "string":
      return JSON.stringify(value);
    case "boolean":
      return String(value);
    case "number":
      if (!Number.isFinite(value)) throw new RangeError(refusal(path, `${value} is not`));
      return Number.isSafeInteger(value) && !Object.is(value, -0) ? String(value) : floatText(value);
    case "bigint":
      if (Number.isSafeInteger(Number(value))) throw new TypeError(refusal(path, `${value}n would read back as a number: pass Number(${value}n)`));
      if (value.toString().length > MOST_DIGITS) throw new RangeError(refusal(path, `a BigInt has at most ${MOST_DIGITS} digits`));
      return value.toString();
    case "object":
      if (value === null) return "null";
      break;
    case "undefined":
      throw new TypeError(refusal(path, "undefined is not: leave it out, or use null"));
    default:
      throw new TypeError(refusal(path, `a ${typeof value} is not`));
  }
  if (within.includes(value)) throw new RangeError(refusal(path, "it contains itself"));
  if (within.length === MOST_LEVELS) throw new RangeError(refusal("", `it is nested more than ${MOST_LEVELS} levels deep`));
  const inside = [...within, value];
  if (Array.isArray(value)) {
    return `[${Array.from(value, (item, at) => toJson(item, `${path}[${at}]`, inside)).join(",")}]`;
  }
  checkPlain(value, path);
  const fields = Object.entries(value).map(([name, field]) => `${JSON.stringify(name)}:${toJson(field, `${path}.${name}`, inside)}`);
  return `{${fields.join(",")}}`;
}

/**
 * Refuses an object that would read back as another one.
 * @param {object} value
 * @param {string} path
 */
function checkPlain(value, path) {
  if (value instanceof Date) throw new TypeError(refusal(path, "a Date is not: store its toISOString()"));
  if (ArrayBuffer.isView(value) || value instanceof ArrayBuffer) {
    throw new TypeError(refusal(path, "bytes are not: decode them, or store them in base64"));
  }
  if (value instanceof Map) throw new TypeError(refusal(path, "a Map is not: store Object.fromEntries() or the array of it"));
  if (value instanceof Set) throw new TypeError(refusal(path, "a Set is not: store the array of it"));
  const prototype = Object.getPrototypeOf(value);
  if (prototype !== null && Object.getPrototypeOf(prototype) !== null) {
    throw new TypeError(refusal(path, `a ${value.constructor?.name || "class's object"} is not: store a plain object`));
  }
  if (Object.getOwnPropertySymbols(value).length > 0) throw new TypeError(refusal(path, "a symbol is no key"));
}

/** @param {string} path @param {string} reason */
function refusal(path, reason) {
  return `a value must be JSON: string, number, boolean, null, array or plain object (${path && `at ${path}: `}${reason})`;
}

module.exports = { LONE_SURROGATE, decode, encode };
