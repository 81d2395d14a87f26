// LangGraph.js on the saver and the store, with the daemon that BOTWIRE_URL names.
import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { describe, test } from "node:test";

import { Annotation, Command, END, INTERRUPT, MemorySaver, START, StateGraph, interrupt } from "@langchain/langgraph";
import { BaseCheckpointSaver, BaseStore, InMemoryStore } from "@langchain/langgraph-checkpoint";
import { BotwiredError, Memory, Refused } from "botwired";
import { CheckpointSaver, Store } from "botwired/langgraph";

let count = 0;
const newMemory = () => new Memory(`langgraph-${process.pid}-${count++}`);
const thread = { configurable: { thread_id: "user/42 ~" } };

const all = async (generator) => {
  const found = [];
  for await (const each of generator) found.push(each);
  return found;
};

const State = Annotation.Root({ said: Annotation({ reducer: (old, more) => [...old, ...more], default: () => [] }) });

/** A graph of two steps, the second of which asks a person. */
function graph(checkpointer, step = () => ({ said: ["step"] })) {
  return new StateGraph(State)
    .addNode("step", step)
    .addNode("ask", () => ({ said: [interrupt("go on?")] }))
    .addEdge(START, "step").addEdge("step", "ask").addEdge("ask", END)
    .compile({ checkpointer });
}

test("a graph goes on after an interrupt, in another process' saver", async () => {
  const memory = newMemory();
  const asked = await graph(new CheckpointSaver(memory)).invoke({ said: ["hello"] }, thread);
  assert.equal(asked[INTERRUPT]?.[0].value ?? asked.__interrupt__[0].value, "go on?");
  const { said } = await graph(new CheckpointSaver(new Memory(memory.namespace))).invoke(new Command({ resume: "yes" }), thread);
  assert.deepEqual(said, ["hello", "step", "yes"]);
  assert.equal((await memory.keys()).length, 1);
});

test("a step that fails is not done again for those beside it", async () => {
  const memory = newMemory();
  let done = 0;
  let isBroken = true;
  const make = () =>
    new StateGraph(State)
      .addNode("good", () => ({ said: [`good ${++done}`] }))
      .addNode("bad", async () => {
        if (!isBroken) return { said: ["mended"] };
        await new Promise((resolve) => setImmediate(resolve));
        throw new Error("broken");
      })
      .addEdge(START, "good").addEdge(START, "bad")
      .compile({ checkpointer: new CheckpointSaver(memory) });
  await assert.rejects(make().invoke({ said: [] }, thread), /broken/);
  isBroken = false;
  assert.deepEqual((await make().invoke(null, thread)).said.sort(), ["good 1", "mended"]);
});

test("the last checkpoints are kept, as many as wanted, and a graph can go back to one", async () => {
  const saver = new CheckpointSaver(newMemory(), { keep: 3 });
  const app = graph(saver);
  await app.invoke({ said: ["hello"] }, thread);
  await app.invoke(new Command({ resume: "yes" }), thread);
  const states = await all(app.getStateHistory(thread));
  assert.equal(states.length, 3);
  const before = states.find(({ next }) => next[0] === "step") ?? states.at(-1);
  const again = await app.invoke(null, before.config);
  assert.ok(again.said.length > 0);
  assert.equal((await all(saver.list(thread))).length, 3);
  assert.equal((await all(saver.list({}, { limit: 2 }))).length, 2);
  await saver.deleteThread("user/42 ~");
  assert.equal(await saver.getTuple(thread), undefined);
});

test("a state of any length, and no part is left behind", async () => {
  const memory = newMemory();
  let step = 0;
  const noise = () => Array.from({ length: 40_000 }, () => Math.random().toString(36)).join("💥");
  const app = graph(new CheckpointSaver(memory), () => ({ said: [noise(), `step ${++step}`] }));
  await app.invoke({ said: [noise()] }, thread);
  const { values } = await app.getState(thread);
  assert.equal(values.said.length, 3);
  const parts = (await memory.keys()).filter((key) => key.includes("~parts"));
  assert.ok(parts.length > 5);
  await app.invoke(new Command({ resume: "yes" }), thread);
  assert.equal((await app.getState(thread)).values.said.length, 4);
  await new CheckpointSaver(memory).deleteThread("user/42 ~");
  assert.deepEqual(await memory.keys(), []);
});

const config = { configurable: { ...thread.configurable, checkpoint_ns: "" } };
const at = (id) => ({ configurable: { ...config.configurable, checkpoint_id: id } });
const noise = Array.from({ length: 20_000 }, () => Math.random().toString(36)).join("");
const put = (memory, id, said, options) => {
  const checkpoint = { v: 4, id, ts: "", channel_values: { said }, channel_versions: {}, versions_seen: {} };
  return new CheckpointSaver(memory, options).put(config, checkpoint, { source: "loop", step: 1, parents: {} }, {});
};
const partsOf = async (namespace) => (await new Memory(namespace).keys()).filter((key) => key.includes("~parts"));

test("writes that come before their checkpoint, and after it has gone", async () => {
  const memory = newMemory();
  const saver = new CheckpointSaver(memory);
  await put(memory, "1", "one");
  await saver.putWrites(at("2"), [["said", "early"]], "task");
  await put(memory, "2", "two");
  await saver.putWrites(at("1"), [["said", "late"]], "task");
  assert.deepEqual((await memory.get("threads/user~142 ~0/")).early, {});
  const found = await saver.getTuple(config);
  assert.deepEqual([found.checkpoint.id, found.pendingWrites], ["2", [["task", "said", "early"]]]);
  await put(memory, "2", "two", { keep: 3 });
  assert.deepEqual(await saver.getTuple(config), found);
  assert.equal((await all(new CheckpointSaver(memory).list(config))).length, 1);
});

test("of a task's writes the first counts, of its special ones the last, in LangGraph's order", async () => {
  const memory = newMemory();
  const saver = new CheckpointSaver(memory);
  await put(memory, "1", "one");
  await saver.putWrites(at("1"), [["said", 1], ["said", 2]], "b", "~b");
  await saver.putWrites(at("1"), [["said", "again"], ["__interrupt__", "first"]], "b", "~b");
  await saver.putWrites(at("1"), [["__interrupt__", "last"]], "b", "~b");
  await saver.putWrites(at("1"), [["said", 0]], "a", "~a");
  const { pendingWrites } = await saver.getTuple(config);
  assert.deepEqual(pendingWrites.map(([, , value]) => value).sort(), [0, 1, 2, "last"]);
  const order = pendingWrites.filter(([, channel]) => channel === "said").map(([, , value]) => value);
  assert.deepEqual(order, [0, 1, 2]);
});

test("a saver keeps no more than fit into an entry, and no part that nothing names", async () => {
  const memory = newMemory();
  const saver = new CheckpointSaver(memory, { keep: 1000 });
  for (let step = 10; step < 22; step++) {
    await put(memory, String(step), "x", { keep: 1000 });
    await saver.putWrites(at(String(step)), [["said", "a value"]], "task", "a long path".repeat(1000));
  }
  const kept = await all(saver.list(config));
  assert.ok(kept.length > 1 && kept.length < 12);
  assert.deepEqual([kept[0].checkpoint.id, kept[0].pendingWrites], ["21", [["task", "said", "a value"]]]);
  assert.equal((await all(saver.list(at("21")))).length, 1);
  const named = JSON.stringify(await memory.get("threads/user~142 ~0/")).match(/\b[0-9a-f]{16}\b/g) ?? [];
  assert.deepEqual((await partsOf(memory.namespace)).map((key) => key.split("/").at(-1)).sort(), named.sort());
});

test("parts that are lost are named", async () => {
  const memory = newMemory();
  await put(memory, "1", noise);
  await memory.delete((await partsOf(memory.namespace))[0]);
  await assert.rejects(new CheckpointSaver(memory).getTuple(config), /parts of the thread "user\/42 ~" are missing/);
  await new CheckpointSaver(memory).deleteThread("user/42 ~");
  assert.equal(await new CheckpointSaver(memory).getTuple(config), undefined);
  const store = new Store(memory);
  await store.put(["docs"], "k", { noise });
  await memory.delete((await partsOf(memory.namespace))[0]);
  await assert.rejects(store.get(["docs"], "k"), /parts of the value of "store\/docs\/k" are missing/);
  await store.put(["docs"], "k", { n: 1 });
  assert.deepEqual((await store.get(["docs"], "k")).value, { n: 1 });
  assert.deepEqual(await partsOf(memory.namespace), []);
});

test("what cannot be deleted now fails no change", async () => {
  const { namespace } = newMemory();
  const full = new (class extends Memory {
    async delete() {
      throw new Refused(507, "the disk is full");
    }
  })(namespace);
  const store = new Store(full);
  await put(full, "1", noise);
  await put(full, "2", noise);
  for (const value of [{ noise }, { short: 1 }]) await store.put(["docs"], "k", value);
  assert.deepEqual((await store.get(["docs"], "k")).value, { short: 1 });
  assert.equal((await new CheckpointSaver(full).getTuple(config)).checkpoint.id, "2");
});

test("keys of others beside the threads", async () => {
  const memory = newMemory();
  await put(memory, "1", noise);
  for (const key of ["threads/notes", "threads/a/b/c"]) await memory.set(key, "mine");
  assert.equal((await all(new CheckpointSaver(memory).list({}))).length, 1);
});

describe("two processes and what goes into parts", () => {
  /** A memory in which another process does something before the first request for a part. */
  function overtaken(namespace, other) {
    let isBehind = true;
    const first = async (key) => {
      if (!isBehind || !key.includes("~parts")) return;
      isBehind = false;
      await other(new Memory(namespace, { url: process.env.BOTWIRE_URL.replace("127.0.0.1", "localhost") })); // it takes no turns with this one
    };
    return new (class extends Memory {
      async entry(key) {
        await first(key);
        return super.entry(key);
      }
      async set(key, value) {
        await first(key);
        return super.set(key, value);
      }
    })(namespace);
  }

  test("who reads it while the other writes it anew gets the newer one", async () => {
    const { namespace } = newMemory();
    await put(new Memory(namespace), "1", noise);
    const reader = overtaken(namespace, (other) => put(other, "2", "newer"));
    const found = await new CheckpointSaver(reader).getTuple(config);
    assert.equal(found?.checkpoint.channel_values.said, "newer");
  });

  test("who adds long writes while the other adds one loses none", async () => {
    const { namespace } = newMemory();
    await put(new Memory(namespace), "1", "short");
    const writer = overtaken(namespace, (other) => new CheckpointSaver(other).putWrites(at("1"), [["said", "short"]], "other"));
    await new CheckpointSaver(writer).putWrites(at("1"), [["said", noise]], "this");
    const { pendingWrites } = await new CheckpointSaver(new Memory(namespace)).getTuple(config);
    assert.deepEqual(pendingWrites.map(([task, , value]) => [task, value.length]), [["other", 5], ["this", noise.length]]);
    const named = JSON.stringify(await new Memory(namespace).get("threads/user~142 ~0/")).match(/\b[0-9a-f]{16}\b/g);
    assert.equal((await partsOf(namespace)).length, named.length);
  });

  test("who reads an item while the other writes it anew gets the newer one", async () => {
    const { namespace } = newMemory();
    await new Store(new Memory(namespace)).put(["docs"], "k", { noise });
    const reader = overtaken(namespace, (other) => new Store(other).put(["docs"], "k", { newer: true }));
    assert.deepEqual((await new Store(reader).get(["docs"], "k")).value, { newer: true });
  });
});

test("tasks that write to one thread at once lose nothing", async () => {
  const memory = newMemory();
  const saver = new CheckpointSaver(memory);
  const config = { configurable: { ...thread.configurable, checkpoint_ns: "", checkpoint_id: "1" } };
  await Promise.all(Array.from({ length: 20 }, (_, n) => new CheckpointSaver(new Memory(memory.namespace)).putWrites(config, [["said", n]], `task ${n}`)));
  await saver.put({ configurable: { ...thread.configurable, checkpoint_ns: "" } }, { v: 4, id: "1", ts: "", channel_values: {}, channel_versions: {}, versions_seen: {} }, { source: "input", step: -1, parents: {} }, {});
  const { pendingWrites } = await saver.getTuple(thread);
  assert.deepEqual(pendingWrites.map(([, , value]) => value).sort((a, b) => a - b), [...Array(20).keys()]);
});

test("an entry that is no thread is left as it is", async () => {
  const memory = newMemory();
  await memory.set("threads/x/", "mine");
  await assert.rejects(new CheckpointSaver(memory).getTuple({ configurable: { thread_id: "x" } }), BotwiredError);
  assert.throws(() => new CheckpointSaver(memory, { keep: 0 }), /keep is 0/);
  await assert.rejects(new CheckpointSaver(memory).putWrites({ configurable: {} }, [], "task"), /must have a "thread_id"/);
});

test("by import and by require, the classes are LangGraph's", () => {
  const require = createRequire(import.meta.url);
  const memory = newMemory();
  assert.ok(new CheckpointSaver(memory) instanceof BaseCheckpointSaver);
  assert.ok(new Store(memory) instanceof BaseStore);
  const framework = require("@langchain/langgraph-checkpoint");
  const required = require("botwired/langgraph");
  assert.ok(new required.CheckpointSaver(memory) instanceof framework.BaseCheckpointSaver);
  assert.ok(new required.Store(memory) instanceof framework.BaseStore);
  assert.ok(new MemorySaver() instanceof BaseCheckpointSaver);
});

// The store answers as LangGraph's own does.
for (const [name, make] of [["Store", () => new Store(newMemory())], ["InMemoryStore", () => new InMemoryStore()]]) {
  describe(name, () => {
    test("items", async () => {
      const store = make();
      assert.equal(await store.get(["users", "42"], "name"), null);
      await store.put(["users", "42"], "name", { first: "Ada", n: 1 });
      const item = await store.get(["users", "42"], "name");
      assert.deepEqual([item.value, item.key, item.namespace], [{ first: "Ada", n: 1 }, "name", ["users", "42"]]);
      assert.ok(item.createdAt instanceof Date && item.updatedAt >= item.createdAt);
      await store.put(["users", "42"], "name", { first: "Grace" });
      assert.deepEqual((await store.get(["users", "42"], "name")).value, { first: "Grace" });
      await store.delete(["users", "42"], "name");
      assert.equal(await store.get(["users", "42"], "name"), null);
    });

    test("searches and namespaces", async () => {
      const store = make();
      for (let n = 0; n < 15; n++) await store.put(["docs", n % 2 ? "odd" : "even"], `k/${n}`, { n, of: { kind: n % 3 } });
      await store.put(["other"], "k", { n: 99 });
      const found = async (prefix, options) => (await store.search(prefix, options)).map(({ value }) => value.n).sort((a, b) => a - b);
      assert.equal((await found(["docs"])).length, 10);
      assert.deepEqual(await found(["docs", "odd"]), [1, 3, 5, 7, 9, 11, 13]);
      assert.deepEqual(await found(["docs"], { filter: { n: { $gte: 5, $lt: 8 } } }), [5, 6, 7]);
      assert.deepEqual(await found(["docs"], { filter: { n: 4 } }), [4]);
      assert.equal((await found(["docs"], { limit: 4, offset: 13 })).length, 2);
      assert.deepEqual((await store.listNamespaces({ prefix: ["docs"] })).sort(), [["docs", "even"], ["docs", "odd"]]);
      assert.deepEqual(await store.listNamespaces({ suffix: ["odd"] }), [["docs", "odd"]]);
      assert.deepEqual(await store.listNamespaces({ prefix: ["*", "odd"] }), [["docs", "odd"]]);
      assert.deepEqual(await store.listNamespaces({ maxDepth: 1 }), [["docs"], ["other"]]);
      const [first, , list] = await store.batch([
        { namespace: ["docs", "odd"], key: "k/1" }, { namespace: ["docs", "odd"], key: "new", value: { n: 100 } }, { namespacePrefix: ["other"], limit: 5, offset: 0 },
      ]);
      assert.equal(first.value.n, 1);
      assert.equal(list.length, 1);
      assert.equal((await store.get(["docs", "odd"], "new")).value.n, 100);
    });
  });
}

test("the block of docs/typescript.md", async () => {
  const page = readFileSync(new URL("../../../../docs/typescript.md", import.meta.url), "utf8");
  const [block] = page.match(/(?<=^```js\n)[^`]*@langchain[^`]*/m);
  const before = 'import { Memory } from "botwired"; const memory = new Memory("page"); const answer = () => ({ messages: [["ai", "yes"]] });\n';
  const script = new URL("node_modules/page.mjs", import.meta.url);
  writeFileSync(script, `${before}${block}\nexport default agent;`);
  const { default: agent } = await import(script);
  const { messages } = await agent.invoke({ messages: [["user", "hello"]] }, thread);
  assert.equal(messages.at(-1).text, "yes");
});

test("items of every kind of text, those that look like parts, and values that no store has written", async () => {
  const memory = newMemory();
  const store = new Store(memory);
  for (const text of ["💥".repeat(100_000), `x${"💥".repeat(100_000)}`]) {
    await store.put(["docs"], "k", { text });
    assert.equal((await store.get(["docs"], "k")).value.text, text);
  }
  const looksLikeParts = { botwired: "parts", parts: ["x"] };
  await store.put(["docs"], "k", looksLikeParts);
  assert.deepEqual((await store.get(["docs"], "k")).value, looksLikeParts);
  await store.batch([{ namespace: ["docs"], key: "k", value: { n: 1 } }, { namespace: ["docs"], key: "k", value: { n: 2 } }]);
  assert.deepEqual((await store.get(["docs"], "k")).value, { n: 2 });
  await memory.set("store/docs/foreign", "a text");
  assert.equal(await store.get(["docs"], "foreign"), null);
  assert.deepEqual(await partsOf(memory.namespace), []);
});

test("an item of any length, and no part is left behind", async () => {
  const memory = newMemory();
  const store = new Store(memory);
  const long = { text: "💥caf\udc97".repeat(30_000), n: 2n ** 70n };
  await store.put(["docs"], "long", long);
  assert.deepEqual((await store.get(["docs"], "long")).value, long);
  assert.deepEqual((await store.search(["docs"])).map(({ value }) => value), [long]);
  await store.put(["docs"], "long", { text: "short" });
  assert.deepEqual(await memory.keys(), ["store/docs/long"]);
  await store.put(["docs"], "long", long);
  await store.delete(["docs"], "long");
  assert.deepEqual(await memory.keys(), []);
});
