"use strict";

// Callers at work while the daemon is killed and started again. None notices, and nothing is lost or doubled. KILLS says
// how often.
const assert = require("node:assert/strict");
const { test } = require("node:test");

const { Memory } = require("../index.js");
const { daemon } = require("./daemon.js");

const kills = Number(process.env.KILLS ?? 20);
const sets = 600;
const updates = 200;

test(`${kills} kills under ${sets} set and ${updates} update`, { timeout: 600_000 }, async (t) => {
  const server = await daemon().start();
  t.after(() => server.remove());
  const memory = new Memory("restart", { url: server.url });
  await memory.set("count", 0);

  let done = 0;
  let wake = () => {};
  const step = () => {
    done++;
    wake();
  };
  const reached = async (goal) => {
    while (done < goal) await new Promise((resolve) => (wake = resolve));
  };
  const setter = async (me) => {
    for (let n = me; n < sets; n += 8) {
      await memory.set(`k:${n}`, { n });
      assert.deepEqual(await memory.get(`k:${n}`), { n });
      step();
    }
  };
  const updater = async (me) => {
    const other = new Memory("restart", { url: me % 2 ? server.url : server.url.replace("127.0.0.1", "localhost") });
    for (let n = me; n < updates; n += 4) {
      await other.update("count", (count) => count + 1);
      step();
    }
  };
  const killer = async () => {
    for (let kill = 1; kill <= kills; kill++) {
      await reached(Math.floor((kill * (sets + updates)) / (kills + 1)));
      await server.end("SIGKILL");
      if (kill % 10 === 0) await new Promise((resolve) => setTimeout(resolve, 4500)); // most come back at once
      await server.start();
    }
  };
  await Promise.all([killer(), ...Array.from({ length: 8 }, (_, me) => setter(me)), ...Array.from({ length: 4 }, (_, me) => updater(me))]);

  const fresh = new Memory("restart", { url: server.url });
  assert.equal(await fresh.get("count"), updates);
  for (let n = 0; n < sets; n++) assert.deepEqual(await fresh.get(`k:${n}`), { n });
  assert.equal((await fresh.keys("k:")).length, sets);
});
