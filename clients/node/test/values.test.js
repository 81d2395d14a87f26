"use strict";

// Values and names, by the tables that hold the other packages as well.
const assert = require("node:assert/strict");
const { readFileSync } = require("node:fs");
const path = require("node:path");
const { test } = require("node:test");

const { unwrap, wrap } = require("../lib/entries.js");
const { KEYS, NAMESPACES } = require("../lib/names.js");
const { decode, encode } = require("../lib/values.js");

const read = (file) => JSON.parse(readFileSync(path.join(__dirname, "../..", file), "utf8"));
const values = read("values.json");
const names = read("python/tests/names.json");

for (const { value: json, text } of values.kept) {
  test(`${json} is kept as ${JSON.stringify(text)}`, () => {
    const value = JSON.parse(json);
    assert.equal(encode(value), text);
    assert.deepEqual(decode(text), value);
  });
}

for (const { text, value: json } of values.read) {
  test(`${JSON.stringify(text)} reads as ${json}`, () => {
    assert.deepEqual(decode(text), JSON.parse(json));
    assert.deepEqual(decode(encode(decode(text))), JSON.parse(json));
  });
}

for (const text of values.integers) {
  test(`${text} is read exactly`, () => assert.equal(encode(decode(text)), text));
}

test("a long text beside many digits", () => {
  const value = ["1234567890123456", "x".repeat(16_000_000), '\\"'.repeat(1_000_000), 2n ** 64n];
  assert.deepEqual(decode(encode(value)), value);
});

test("an integer that a number cannot hold is a BigInt, and others are numbers", () => {
  assert.deepEqual(decode("[9007199254740993,9007199254740991,1e+20]"), [9007199254740993n, 9007199254740991, 1e20]);
  assert.throws(() => encode({ n: 5n }), /at \.n: 5n would read back as a number: pass Number\(5n\)/);
  assert.throws(() => encode(10n ** 5000n), RangeError);
  for (const long of ["9".repeat(5000), `[${"9".repeat(5000)}]`]) assert.equal(decode(long), long); // Python reads no such number
});

const inItself = [];
inItself.push(inItself);
const nested = (levels) => {
  let value = [];
  for (let level = 1; level < levels; level++) value = [value];
  return value;
};
test("the deepest value", () => assert.deepEqual(decode(encode(nested(500))), nested(500)));
const refused = {
  bytes: new Uint8Array(1),
  "bytes in an object": { a: Buffer.from("x") },
  "a date": new Date(0),
  "a date in an array": [new Date(0)],
  "a set": new Set([1]),
  "a function": () => {},
  "a class's object": new (class Agent {})(),
  NaN: Number.NaN,
  "infinity in an array": [Infinity],
  "an array in itself": inItself,
  "501 levels": nested(501),
  "100,000 levels": nested(100_000),
};

for (const [name, words] of Object.entries(values.refused)) {
  test(`${name} is refused`, () => assert.throws(() => encode(refused[name]), ({ message }) => message.startsWith("a value must be JSON") && message.toLowerCase().includes(words.toLowerCase())));
}

for (const [name, value, words] of [
  ["undefined", undefined, "undefined is not: leave it out, or use null"],
  ["undefined in an object", { a: [{ b: undefined }] }, "at .a[0].b: undefined"],
  ["a hole", [, 1], "at [0]: undefined"],
  ["a Map", { a: new Map() }, "at .a: a Map is not: store Object.fromEntries()"],
  ["a symbol", Symbol("s"), "a symbol is not"],
  ["a symbol as a key", { [Symbol("s")]: 1 }, "a symbol is no key"],
  ["an ArrayBuffer", new ArrayBuffer(1), "bytes are not"],
  ["a text in an object", new String("x"), "a String is not"],
]) {
  test(`${name} is refused`, () => assert.throws(() => encode(value), ({ message }) => message.includes(words)));
}

test("an object of another realm and one without a prototype are plain", () => {
  const value = require("node:vm").runInNewContext("({ a: [1] })");
  assert.equal(encode(value), '{"a":[1]}');
  assert.equal(encode(Object.assign(Object.create(null), { a: 1 })), '{"a":1}');
});

test("whatever is kept comes back", () => {
  const strings = ["", "5", "5.0", "1e-07", "-0", '"', '"a"', '"5"', '"\\"5\\""', "[", "[]", "[NaN]", "[1e999]", "\0", "\ud800", "\ud800\ud800", "null", "{}", "💥"];
  const numbers = [0, -0, 1e-7, 1e-6, 123456.789e-3, 1e15, 1e16, 1e20, 1e21, 2 ** 53, 2 ** 63, 5e-324, Number.MAX_VALUE, -1 / 3];
  const values = [...strings, ...numbers, true, null, 2n ** 64n, -(2n ** 64n)];
  for (const value of [...values, ...strings.map((text) => JSON.stringify(text)), values, Object.fromEntries(values.map((value, at) => [strings[at] ?? at, value]))]) {
    assert.deepEqual(decode(encode(value)), value);
  }
});

for (const [alphabet, rows] of [[KEYS, names.keys], [NAMESPACES, names.namespaces]]) {
  for (const { name, wire } of rows) {
    test(`${JSON.stringify(name.slice(0, 40))} is ${wire}`, () => {
      assert.equal(alphabet.toWire(name).text, wire);
      if (!alphabet.toWire(name).isDigest) assert.equal(alphabet.fromWire(wire), name);
    });
  }
}

for (const wire of names.foreign_keys) {
  test(`${wire} is its own name`, () => {
    assert.equal(KEYS.fromWire(wire), wire);
    assert.equal(KEYS.toWire(KEYS.fromWire(wire)).text, wire);
  });
}

test("halves of characters in names", () => {
  assert.equal(KEYS.toWire("\ud83d").text, "_..ED.A0.BD");
  assert.equal(KEYS.fromWire("_..ED.A0.BD"), "\ud83d");
  assert.equal(KEYS.toWire("\ud83d\ude00").text, "_..F0.9F.98.80");
  assert.equal(KEYS.fromWire("_..ED.A0.BD.ED.B8.80"), "_..ED.A0.BD.ED.B8.80");
});

test("the name of a digest is in its value, and another client's value has the digest for a name", () => {
  const [one, other] = ["x".repeat(200), "y".repeat(200)];
  const digest = KEYS.toWire(one).text;
  assert.deepEqual(unwrap(digest, wrap(one, "a\nb")), [one, "a\nb"]);
  assert.deepEqual(unwrap(digest, JSON.stringify({ key: one })), [one, ""]);
  for (const foreign of [wrap(other, "a"), "a", "{}\na", '{"key":""}\na', '{"key":1}\na']) assert.deepEqual(unwrap(digest, foreign), [digest, foreign]);
});

test("names that are refused", () => {
  assert.throws(() => KEYS.toWire(""), /a key must not be empty/);
  assert.throws(() => KEYS.toWire(42), /a key must be a string, not number/);
});
