"use strict";

// The methods of Memory, on a real daemon and on plain BotWire.
const assert = require("node:assert/strict");
const { once } = require("node:events");
const { after, before, describe, test } = require("node:test");
const { inspect } = require("node:util");

const { ABSENT, Conflict, Incomplete, Memory, Refused, Unauthorized, Unavailable, Unsupported } = require("../index.js");
const { authorOf } = require("../lib/address.js");
const { daemon, selfhost } = require("./daemon.js");

const server = daemon();
before(() => server.start());
after(() => server.remove());

let count = 0;
const newMemory = (options) => new Memory(`test-${count++}`, { url: server.url, ...options });

const keys = [
  "user_name", "...", "user:42:preferences", "a/b", "/", "//", "a b", "%2F", "?", "#x", "é", "長い", "🙂", "a\nb", "\0", "_.", "_.x", "__x", "\ud83d",
  `_-${"a".repeat(43)}`, "x".repeat(128), "x".repeat(129), "y:".repeat(100), "長".repeat(5000),
];

for (const key of keys) {
  test(`the key ${JSON.stringify(key.slice(0, 20))} of ${key.length}`, async () => {
    const memory = newMemory();
    assert.equal(await memory.get(key), undefined);
    assert.equal(await memory.has(key), false);
    await memory.set(key, { of: key });
    assert.deepEqual(await memory.get(key), { of: key });
    assert.equal((await memory.entry(key)).key, key);
    assert.deepEqual(await memory.keys(), [key]);
    assert.equal((await memory.update(key, (value) => ({ ...value, n: 1 }))).n, 1);
    assert.equal((await memory.undo(key)).value.of, key);
    assert.equal(await memory.delete(key), true);
    assert.equal(await memory.delete(key), false);
    assert.deepEqual(await memory.keys(), []);
  });
}

test("a key that no URL can have", async () => {
  for (const key of [".", ".."]) await assert.rejects(newMemory().set(key, 1), /fetch cannot ask for the key/);
});

for (const namespace of ["user:42", "é", "..", "a/b", "n".repeat(65), "team.agents"]) {
  test(`the namespace ${namespace}`, async () => {
    const memory = new Memory(namespace, { url: server.url });
    await memory.set("k", 1);
    assert.equal(memory.namespace, namespace);
    assert.deepEqual(await memory.keys(), ["k"]);
  });
}

test("values come back, and what is too long is refused", async () => {
  const memory = newMemory();
  for (const value of ["x".repeat(100_000), "🙂".repeat(100_000), '"'.repeat(99_000), "caf\udc97 \0", 5, -0, 1e-7, 2n ** 64n, null, false, [1, [null]], { a: {} }]) {
    await memory.set("k", value);
    assert.deepEqual(await memory.get("k"), value);
  }
  await memory.set("長".repeat(200), '"'.repeat(99_000));
  assert.equal(await memory.get("長".repeat(200)), '"'.repeat(99_000));
  await assert.rejects(memory.set("k", "x".repeat(150_000)), (error) => error instanceof Refused && error.status === 400 && /100/.test(error.message));
  assert.deepEqual(await memory.get("k"), { a: {} });
});

test("what there is not, and null", async () => {
  const memory = newMemory();
  assert.equal(await memory.get("k", 7), 7);
  assert.equal(await memory.entry("k"), undefined);
  await memory.set("k", null);
  assert.equal(await memory.get("k", 7), null);
});

test("an entry, and waiting for upstream", async () => {
  const memory = newMemory();
  const began = Date.now();
  const written = await memory.set("k", [1], { wait: 10_000 });
  assert.equal(written.state, "settled");
  assert.ok(written.seq > 0);
  const entry = await memory.entry("k");
  assert.deepEqual({ ...entry, createdAt: 0, updatedAt: 0 }, { key: "k", value: [1], text: "[1]", version: written.version, createdAt: 0, updatedAt: 0 });
  assert.ok(Math.abs(entry.updatedAt - began) < 60_000 && entry.createdAt <= entry.updatedAt);
  await assert.rejects(memory.set("k", 1, { wait: -1 }), /wait must be a number of milliseconds/);
});

test("conditions", async () => {
  const memory = newMemory();
  const first = await memory.set("k", 1, { ifVersion: ABSENT });
  await assert.rejects(memory.set("k", 2, { ifVersion: ABSENT }), (error) => error instanceof Conflict && error.version === first.version);
  const second = await memory.set("k", 2, { ifVersion: first.version });
  await assert.rejects(memory.delete("k", { ifVersion: first.version }), Conflict);
  assert.equal(await memory.delete("k", { ifVersion: second.version }), true);
  await assert.rejects(memory.set("k", 3, { ifVersion: second.version }), (error) => error instanceof Conflict && error.version === undefined);
  await assert.rejects(memory.set("k", 3, { ifVersion: undefined }), Unsupported);
  await assert.rejects(memory.set("k", 3, { ifVersion: 3 }), /must be an entry's version or ABSENT, not 3/);
  for (const ifVersion of [5n, '"1\r\nX: y"', '"\u{1f600}"', '"é"', ' "1"']) await assert.rejects(memory.set("k", 3, { ifVersion }), /must be an entry's version or ABSENT/);
  await assert.rejects(memory.delete("k", { ifVersion: ABSENT }), /nothing to delete/);
  assert.equal(await memory.has("k"), false);
});

test("updates of one process take turns, and those of others are not lost", async () => {
  const memory = newMemory();
  let calls = 0;
  const add = async (n = 0) => {
    calls++;
    return n + 1;
  };
  await Promise.all(Array.from({ length: 80 }, () => memory.update("n", add)));
  assert.deepEqual([await memory.get("n"), calls], [80, 80]);
  const seen = [];
  const other = new Memory(memory.namespace, { url: server.url.replace("127.0.0.1", "localhost") });
  const result = await memory.update("n", async (n) => {
    if (seen.push(n) === 1) await other.update("n", () => 100);
    return n + 1;
  });
  assert.deepEqual([result, seen], [101, [80, 100]]);
});

test("an update that fails writes nothing, and lets the next one go on", async () => {
  const memory = newMemory();
  await assert.rejects(memory.update("k", (items = []) => void items.push(1)), /must return the new value, and has returned undefined/);
  await assert.rejects(memory.update("k", () => { throw new RangeError("mine"); }), /mine/);
  await assert.rejects(memory.update("k", () => new Date()), /a Date is not/);
  assert.equal(await memory.update("k", (value) => value ?? "first"), "first");
  const { version } = await memory.entry("k");
  await memory.update("k", (value) => value);
  assert.equal((await memory.entry("k")).version, version);
});

test("an update within an update of the same entry fails, in place of waiting for itself", async () => {
  const memory = newMemory();
  await assert.rejects(memory.update("k", () => memory.append("k", "x")), /the update of "test-\d+\/k" within one of "test-\d+\/k" would wait for itself/);
  let later;
  await memory.update("k", async () => {
    await memory.update("other", () => 1);
    later = new Promise((resolve) => setImmediate(resolve)).then(() => memory.update("other", (n) => n + 1));
    return 1;
  });
  assert.equal(await later, 2);
  assert.equal(await memory.update("k", (n) => n + 1), 2);
});

test("updates within updates of other entries: one of those that would wait for each other is refused", { timeout: 60_000 }, async () => {
  for (const ring of [["a", "b"], ["a", "b", "c"]]) {
    const memory = newMemory();
    let begun = 0;
    let all;
    const allHaveBegun = new Promise((resolve) => (all = resolve));
    const nested = ring.map((key, at) =>
      memory.update(key, async (n = 0) => {
        if (++begun === ring.length) all();
        await allHaveBegun;
        await memory.update(ring[(at + 1) % ring.length], (inner = 0) => inner + 1);
        return n + 1;
      }),
    );
    const failed = (await Promise.allSettled(nested)).filter(({ status }) => status === "rejected");
    assert.equal(failed.length, 1);
    assert.match(failed[0].reason.message, /^the update of "test-\d+\/[abc]" within one of "test-\d+\/[abc]" would wait for itself: make one after/);
    assert.equal(await memory.update(ring[0], () => "free"), "free");
  }
  const memory = newMemory();
  const inOrder = () => memory.update("a", async (n = 0) => n + (await memory.update("b", () => 1)));
  await Promise.all(Array.from({ length: 20 }, inOrder));
  assert.equal(await memory.get("a"), 20);
});

test("append", async () => {
  const memory = newMemory();
  await Promise.all(["5", "6", "7"].map((line) => memory.append("log", line)));
  assert.deepEqual((await memory.get("log")).split("\n").sort(), ["5", "6", "7"]);
  await memory.set("n", "5");
  assert.equal(await memory.append("n", "6", { separator: "" }), "56");
  assert.equal(await memory.get("n"), "56");
  await memory.set("list", [1]);
  await assert.rejects(memory.append("list", "x"), /holds no text to append to/);
  await assert.rejects(memory.append("log", 5), /append takes a text, not 5/);
  await assert.rejects(memory.append("log", "x", { separator: "-".repeat(101) }), /at most 100 characters/);
});

test("history and undo", async () => {
  const memory = newMemory({ author: "Müller's agent" });
  assert.deepEqual(await memory.history("k"), []);
  await assert.rejects(memory.undo("k"), (error) => error instanceof Refused && error.status === 404);
  await memory.set("k", { v: 1 });
  await assert.rejects(memory.undo("k"), (error) => error instanceof Refused && error.status === 409);
  await memory.set("k", { v: 2 });
  await memory.delete("k", { wait: 10_000 });
  const [now, two, one] = await memory.history("k");
  assert.deepEqual([now.exists, now.value, now.state, now.here, now.author], [false, undefined, "settled", true, "Müller's agent"]);
  assert.deepEqual([two.value, one.value], [{ v: 2 }, { v: 1 }]);
  assert.ok(now.writtenAt >= one.writtenAt);
  assert.deepEqual((await memory.undo("k")).value, { v: 2 });
  assert.deepEqual((await memory.undo("k", one)).value, { v: 1 });
  assert.deepEqual((await memory.undo("k", two.name)).value, { v: 2 });
  await assert.rejects(memory.undo("k", "123456789"), (error) => error instanceof Refused && error.status === 404);
  await assert.rejects(memory.undo("k", { ...one, name: undefined }), /no undo leads to this state/);
});

test("the keys of a prefix, and more than BotWire lists", async () => {
  const memory = newMemory();
  for (const key of ["user:1", "user:2", "team:1"]) await memory.set(key, 1);
  assert.deepEqual(await memory.keys("user:"), ["user:2", "user:1"]);
  assert.deepEqual(await memory.keys("user:*"), ["user:2", "user:1"]);
  await Promise.all(Array.from({ length: 1010 }, (_, n) => memory.set(`k:${n}`, n)));
  assert.equal((await memory.keys()).length, 1013);
});

test("options that do not exist", async () => {
  const memory = newMemory();
  await assert.rejects(memory.set("k", 1, { ttl: 60 }), /there is no ttl: BotWire ignores it/);
  await assert.rejects(memory.set("k", 1, { if_version: "x" }), /there is no option if_version: there are ifVersion, wait/);
  assert.throws(() => new Memory("n", { baseUrl: "x" }), /there is no option baseUrl/);
  assert.throws(() => new Memory("n", "http://127.0.0.1:2689"), /options must be an object/);
  assert.throws(() => new Memory("n", { patience: "5" }), /patience must be a number of milliseconds, not "5"/);
  for (const timeout of [0, NaN, 5n, null]) assert.throws(() => new Memory("n", { timeout }), { message: `timeout must be a number of milliseconds, not ${inspect(timeout)}` });
  await assert.rejects(new Memory("n").append("k", 5n), /append takes a text, not 5n/);
  await assert.rejects(new Memory("n").undo("k", null), /no undo leads to this state/);
  assert.throws(() => new Memory(""), /must not be empty/);
  assert.equal(await memory.has("k"), false);
});

test("authors", async () => {
  for (const author of ["", "x".repeat(65), "a\nb", "\ud800"]) assert.throws(() => newMemory({ author }), /1 to 64 printable characters/);
  process.env.BOTWIRED_AUTHOR = " of the\nenvironment ";
  const memory = newMemory();
  delete process.env.BOTWIRED_AUTHOR;
  await memory.set("k", 1);
  assert.equal((await memory.history("k"))[0].author, "of the?environment");
});

test("the name of a script, which no other machine learns", (t) => {
  const [program, script] = process.argv;
  t.after(() => (process.argv[1] = script));
  for (const [each, name] of [["/agents/planner.mjs", "planner"], ["/agents/planner/index.js", "planner"], ["C:\\agents\\planner.ts", "planner"], [undefined, ""]]) {
    process.argv = [program, ...(each === undefined ? [] : [each])];
    assert.equal(authorOf(undefined, true), name);
    assert.equal(authorOf(undefined, false), "");
  }
});

test("URLs, and errors that do not show the token", () => {
  assert.equal(new Memory("n", { url: "http://x:secret@botwired:2689/" }).url, "http://botwired:2689");
  assert.equal(new Memory("n", { url: "https://[::1]:99/base/" }).url, "https://[::1]:99/base");
  for (const url of ["http://x:sesame/1@host:2689", "http://x:sesame@[host", "http://x:ses#ame@h", "botwire.dev", "http://host:99999", "ftp://host", "http://host?x=1", "http://"]) {
    assert.throws(() => new Memory("n", { url }), ({ message }) => /must be such as/.test(message) && !message.includes("ses"), url);
  }
  assert.throws(() => new Memory("n", { url: "unix:///run/b.sock" }), /fetch cannot reach a Unix socket: have the daemon listen on loopback/);
  for (const token of ["", "a\nb", "é"]) assert.throws(() => new Memory("n", { token }), /a token must be of printable ASCII/);
});

describe("a daemon with a token", () => {
  const { writeFileSync, mkdtempSync, rmSync } = require("node:fs");
  const { tmpdir } = require("node:os");
  const path = require("node:path");
  const folder = mkdtempSync(path.join(tmpdir(), "botwired-node-"));
  const token = "a/token+of:tests@";
  writeFileSync(path.join(folder, "token"), token, { mode: 0o600 });
  const guarded = daemon("--auth-token-file", path.join(folder, "token"));
  before(() => guarded.start());
  after(async () => {
    await guarded.remove();
    rmSync(folder, { recursive: true });
  });

  test("it takes the token, and the one in a URL", async () => {
    for (const options of [{ url: guarded.url, token }, { url: `http://x:${encodeURIComponent(token)}@${guarded.address}` }]) {
      const memory = new Memory("token", options);
      await memory.set("k", 1);
      assert.equal(await memory.get("k"), 1);
    }
  });

  test("it takes no other", async () => {
    for (const options of [{}, { token: "another" }]) {
      await assert.rejects(new Memory("token", { url: guarded.url, ...options }).get("k"), (error) => error instanceof Unauthorized && /pass \{ token \}/.test(error.message));
    }
  });
});

test("plain BotWire", async (t) => {
  const plain = await selfhost().start();
  t.after(() => plain.remove());
  const memory = new Memory("team:a", { url: plain.url });
  const written = await memory.set("user:42", { n: 1 });
  assert.deepEqual(written, { version: undefined, state: undefined, seq: undefined });
  assert.deepEqual(await memory.update("user:42", ({ n }) => ({ n: n + 1 })), { n: 2 });
  assert.deepEqual(await memory.keys("user:"), ["user:42"]);
  for (const ifVersion of [ABSENT, '"1-x"', written.version]) await assert.rejects(memory.set("user:42", 1, { ifVersion }), Unsupported);
  await assert.rejects(memory.history("user:42"), Unsupported);
  await assert.rejects(memory.undo("user:42"), Unsupported);
  assert.deepEqual(await memory.get("user:42"), { n: 2 });
  await Promise.all(Array.from({ length: 1001 }, (_, n) => memory.set(`k${n}`, n)));
  const warned = once(process, "warning");
  assert.equal((await memory.keys()).length, 1000);
  const [warning] = await warned;
  assert.ok(warning instanceof Incomplete && /may lack keys: BotWire lists no more than 1,000/.test(warning.message));
});

test("no daemon at all", async () => {
  const gone = await daemon().start();
  await gone.remove();
  const began = performance.now();
  for (const url of [gone.url, gone.url.replace("127.0.0.1", "localhost"), "http://127.0.0.1:1", "http://nowhere.invalid:2689"]) {
    await assert.rejects(new Memory("n", { url }).set("k", 1), (error) => error instanceof Unavailable && error.message.startsWith(`there is no botwired at ${url}: `) && error.message.includes("`botwired run -- COMMAND`"));
  }
  assert.ok(performance.now() - began < 20_000);
});
