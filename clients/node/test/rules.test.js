"use strict";

// Holds the package to clients/rules.json, as the Python package is held to it. Time passes only in pauses, and where an answer takes some.
const assert = require("node:assert/strict");
const { readFileSync } = require("node:fs");
const path = require("node:path");
const { beforeEach, test } = require("node:test");

const botwired = require("../index.js");
const { Documents } = require("../lib/parts.js");
const { contacts } = require("../lib/retry.js");
const time = require("../lib/time.js");

const { answers, cases } = JSON.parse(readFileSync(path.join(__dirname, "../../rules.json"), "utf8"));
const URL_OF_ALL = "http://127.0.0.1:4";

const calls = {
  get: (memory) => memory.get("k"),
  set: async (memory, options) => (await memory.set("k", 6, options)).version,
  delete: (memory, options) => memory.delete("k", options),
  keys: (memory) => memory.keys(),
  update: (memory) => memory.update("k", (n = 0) => n + 1),
  undo: async (memory) => (await memory.undo("k")).value,
};

/** Answers of a server in turn, and the last one for ever. */
class Script {
  requests = [];

  fetch = async (url, { method, headers }) => {
    this.requests.push({ method, headers: new Headers(headers) });
    const { lost, after = 0, status, headers: sent, body, text } = answers[this.answers.length > 1 ? this.answers.shift() : this.answers[0]];
    now += after * 1000;
    if (lost === "before it was sent") throw new TypeError("fetch failed", { cause: Object.assign(new Error("refused"), { code: "ECONNREFUSED" }) });
    if (lost) throw new TypeError("fetch failed", { cause: Object.assign(new Error("other side closed"), { code: "UND_ERR_SOCKET" }) });
    return new Response(text ?? JSON.stringify(body), { status, headers: sent });
  };
}

let now;
let pauses;
beforeEach(() => {
  now = 0;
  pauses = [];
  contacts.clear();
  time.now = () => now;
  time.sleep = async (milliseconds) => {
    now += milliseconds;
    pauses.push(milliseconds / 1000);
  };
});

for (const { name, calls: made } of cases) {
  test(name, async () => {
    const script = new Script();
    const memory = new botwired.Memory("n", { url: URL_OF_ALL, fetch: script.fetch });
    const writes = new Map();
    for (const wanted of made) {
      script.requests = [];
      script.answers = [...wanted.answers];
      pauses.length = 0;
      const options = wanted.if_version === undefined ? {} : { ifVersion: wanted.if_version === "ABSENT" ? botwired.ABSENT : wanted.if_version };
      if ("wait" in wanted) options.wait = wanted.wait * 1000;
      const outcome = await calls[wanted.call](memory, options).then((result) => ({ result }), (error) => ({ error }));
      checkOutcome(outcome, wanted);
      if (wanted.requests !== null) checkRequests(script.requests, wanted.requests, writes);
      if ("waited" in wanted) assert.equal(Math.round(sum(pauses) * 1e6) / 1e6, wanted.waited);
      if ("pauses" in wanted) checkPauses(wanted.pauses);
      if ("state" in wanted) assert.equal(memory.state, wanted.state ?? undefined);
    }
  });
}

function checkOutcome({ result, error }, wanted) {
  if (!wanted.error) {
    assert.ifError(error);
    if ("result" in wanted) assert.equal(result, wanted.result);
    return;
  }
  assert.ok(error, "it has succeeded");
  assert.equal(error.constructor, botwired[wanted.error.type === "Error" ? "BotwiredError" : wanted.error.type], error.stack);
  for (const words of wanted.error.says) assert.ok(error.message.includes(words.replace("URL", URL_OF_ALL)), error.message);
}

function checkRequests(requests, wanted, writes) {
  assert.deepEqual(requests.map(({ method }) => method), wanted.map((each) => each.method ?? each));
  requests.forEach(({ method, headers }, at) => {
    const name = headers.get("idempotency-key");
    assert.equal(name === null, !["PUT", "DELETE"].includes(method));
    assert.equal(headers.get("botwired-idempotency-key"), name);
    for (const [header, value] of Object.entries(wanted[at].headers ?? {})) assert.equal(headers.get(header), value, header);
    const { write } = wanted[at];
    if (write === undefined) return;
    if (!writes.has(write)) assert.ok(![...writes.values()].includes(name), "two writes have one name");
    writes.set(write, writes.get(write) ?? name);
    assert.equal(name, writes.get(write));
  });
}

function checkPauses(wanted) {
  assert.equal(pauses.length, wanted.length);
  wanted.forEach(([least, most], at) => assert.ok(least - 1e-9 <= pauses[at] && pauses[at] <= most + 1e-9, `${pauses}`));
}

const sum = (numbers) => numbers.reduce((all, each) => all + each, 0);

const updates = (memory, change) => Promise.allSettled(Array.from({ length: 50 }, () => memory.update("k", change)));

test("50 updates wait for their turns, and each has the whole patience since the daemon's newest answer", async () => {
  const script = new Script();
  const memory = new botwired.Memory("n", { url: URL_OF_ALL, fetch: script.fetch });
  script.answers = Array(50).fill(["busy", "found 5", "cut off", "stored"]).flat();
  const made = await updates(memory, (n) => {
    now += 1000;
    return n + 1;
  });
  assert.deepEqual(made.filter(({ status }) => status === "rejected"), []);
  assert.ok(now > 50_000);
});

test("an update behind one that takes long, and changes nothing, has the whole patience", async () => {
  const script = new Script();
  const memory = new botwired.Memory("n", { url: URL_OF_ALL, fetch: script.fetch });
  script.answers = ["found 5", "not connected", "found 5", "stored"];
  const slow = memory.update("k", (n) => {
    now += 40_000;
    return n;
  });
  assert.deepEqual(await Promise.all([slow, memory.update("k", (n) => n + 1)]), [5, 6]);
});

test("50 updates wait for their turns, and the daemon hangs: they fail together", async () => {
  const script = new Script();
  const memory = new botwired.Memory("n", { url: URL_OF_ALL, fetch: script.fetch });
  script.answers = ["cut off after 40 s"];
  const failed = await updates(memory, (n) => n + 1);
  assert.ok(failed.every(({ reason }) => reason instanceof botwired.Unavailable && reason.cause !== undefined));
  assert.equal(now, 40_000);
  script.answers = ["found 5", "stored"];
  assert.equal(await memory.update("k", (n) => n + 1), 6);
});

test("50 updates wait for their turns, and no daemon answers: they fail together", async () => {
  for (const answer of ["not connected", "busy"]) {
    now = 0;
    const script = new Script();
    const memory = new botwired.Memory("n", { url: URL_OF_ALL, fetch: script.fetch });
    script.answers = ["found 5"];
    await memory.get("k");
    script.answers = [answer];
    const failed = await updates(memory, (n) => n + 1);
    assert.ok(failed.every(({ reason }) => reason instanceof botwired.Unavailable));
    assert.equal(Math.round(now), 30_000);
  }
});

test("50 updates wait for their turns, and there is no daemon: they fail together, at once", async () => {
  const script = new Script();
  const memory = new botwired.Memory("n", { url: URL_OF_ALL, fetch: script.fetch });
  script.answers = ["not connected"];
  const failed = await updates(memory, (n = 0) => n + 1);
  assert.ok(failed.every(({ reason }) => reason instanceof botwired.Unavailable && reason.message.startsWith("there is no botwired at")));
  assert.equal(Math.round(now), 500);
});

test("an update behind one that is durable and not confirmed has its own patience", async () => {
  const script = new Script();
  const memory = new botwired.Memory("n", { url: URL_OF_ALL, fetch: script.fetch });
  script.answers = ["found 5", ...Array(11).fill("not confirmed"), "found 6", "stored"];
  const [first, second] = await Promise.allSettled([memory.update("k", (n) => n + 1), memory.update("k", (n) => n + 1)]);
  assert.match(first.reason.message, /the write is durable in the daemon, and pending/);
  assert.equal(second.value, 7);
});

test("an update behind a hastier one that fails has what is left of its own patience", async () => {
  const script = new Script();
  const [hasty, patient] = [5000, 30_000].map((patience) => new botwired.Memory("n", { url: URL_OF_ALL, fetch: script.fetch, patience }));
  script.answers = ["found 5"];
  const slow = hasty.update("k", (n) => {
    now += 40_000;
    script.answers = ["busy"];
    return n + 1;
  });
  const done = await Promise.allSettled([slow, patient.update("k", (n) => n + 1)]);
  assert.deepEqual(done.map(({ status }) => status), ["rejected", "rejected"]);
  assert.equal(Math.round(now), 70_000);
});

for (const [name, goOn] of [["a while ago", () => (now += 2000)], ["and an answer has come since", (memory) => memory.get("k")]]) {
  test(`an update behind one that takes long has the whole patience if another call has failed meanwhile, ${name}`, async () => {
    const script = new Script();
    const memory = new botwired.Memory("n", { url: URL_OF_ALL, fetch: script.fetch });
    script.answers = ["found 5"];
    const slow = memory.update("k", async (n) => {
      script.answers = ["cut off"];
      await assert.rejects(memory.get("k"), botwired.Unavailable);
      script.answers = ["found 5"];
      await goOn(memory);
      script.answers = ["busy", "found 5", "stored"];
      return n;
    });
    assert.deepEqual(await Promise.all([slow, memory.update("k", (n) => n + 1)]), [5, 6]);
  });
}

test("a long value that others write again and again is not deleted for ever", async () => {
  let requests = 0;
  const fetch = async (url, { method }) => {
    if (requests++ > 10_000) throw new Error("for ever");
    const { status, headers, body } = method === "DELETE" ? answers.unmet : answers["found 5"];
    return new Response(JSON.stringify(body), { status, headers: { ...headers, etag: `"${requests}-x"` } });
  };
  const documents = new Documents(new botwired.Memory("n", { url: URL_OF_ALL, fetch }), (name) => name);
  await assert.rejects(documents.remove("k"), (error) => error instanceof botwired.Unavailable && /"k" was not changed: in \d+ attempts over 30 s/.test(error.message));
});
