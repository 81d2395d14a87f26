"use strict";

// Calls in an outage of upstream: each succeeds, and says so in the same words. OUTAGE says how long it lasts at least, in
// seconds.
const assert = require("node:assert/strict");
const { test } = require("node:test");

const { Memory } = require("../index.js");
const { selfhost, behind } = require("./daemon.js");

const outage = Number(process.env.OUTAGE ?? 0) * 1000;

test("while upstream is away, each call succeeds and says so", { timeout: 120_000 + outage }, async (t) => {
  const upstream = await selfhost().start();
  t.after(() => upstream.remove());
  const server = await behind(upstream).start();
  t.after(() => server.remove());
  const memory = new Memory("agent", { url: server.url });
  const turn = async () => {
    const states = [];
    const note = () => states.push(memory.state);
    await memory.set("k", "v");
    note();
    assert.equal(await memory.get("k"), "v");
    note();
    await memory.update("n", (n = 0) => n + 1);
    note();
    await memory.append("log", "line");
    note();
    assert.ok((await memory.keys()).includes("k"));
    note();
    assert.ok((await memory.history("log")).length > 0);
    note();
    return new Set(states);
  };
  const becomes = async (well) => {
    do await memory.set("poke", "v");
    while ((memory.state === undefined) !== well);
  };
  assert.deepEqual(await turn(), new Set([undefined]));
  await upstream.end();
  await becomes(false);
  const returns = performance.now() + outage;
  const states = new Set();
  while (!states.size || performance.now() < returns) {
    for (const each of await turn()) states.add(each);
    await new Promise((resolve) => setTimeout(resolve, outage / 60));
  }
  const [state, ...others] = states;
  assert.deepEqual(others, []);
  assert.match(state, /^Upstream has failed to answer since \d\d:\d\d UTC: answers may be botwired's copies, and writes are kept here, durably, until it has them\.$/);
  await upstream.start();
  await becomes(true);
  assert.deepEqual(await turn(), new Set([undefined]));
});
