"use strict";

// The package as it is packed: its files, and both ways to load it.
const assert = require("node:assert/strict");
const { existsSync, readFileSync, readdirSync } = require("node:fs");
const path = require("node:path");
const { test } = require("node:test");

const here = path.join(__dirname, "..");
const botwired = require("../index.js");

test("import and require give the same classes", async () => {
  const imported = await import("../index.mjs");
  assert.deepEqual(Object.keys(imported).sort(), Object.keys(botwired).sort());
  for (const name of Object.keys(imported)) assert.equal(imported[name], botwired[name]);
});

test("the types of LangGraph.js are the same for both ways: each refers to the framework's own for its way", () => {
  assert.equal(readFileSync(path.join(here, "langgraph.d.mts"), "utf8"), readFileSync(path.join(here, "langgraph.d.ts"), "utf8"));
});

test("what the manifest names is there", () => {
  const { exports, files, main, types } = JSON.parse(readFileSync(path.join(here, "package.json"), "utf8"));
  const named = [main, types, ...files, ...JSON.stringify(exports).match(/\.\/[\w./]+\.(?:json|d\.m?ts|m?js)/g)];
  for (const name of named) assert.ok(existsSync(path.join(here, name)), name);
});

test("it needs nothing but the runtime, and sends requests with fetch alone", () => {
  assert.equal(JSON.parse(readFileSync(path.join(here, "package.json"), "utf8")).dependencies, undefined);
  const sources = readdirSync(path.join(here, "lib")).map((name) => readFileSync(path.join(here, "lib", name), "utf8"));
  const modules = new Set(sources.flatMap((text) => [...text.matchAll(/\brequire\("([^.][^"]*)"\)/g)].map(([, name]) => name)));
  assert.deepEqual([...modules].sort(), ["node:async_hooks", "node:crypto", "node:util", "node:zlib"]);
});

test("without LangGraph.js, the error names what to install", () => {
  assert.throws(() => require("../langgraph.js"), /Cannot find module '@langchain\/langgraph-checkpoint'/);
});
