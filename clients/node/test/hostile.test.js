"use strict";

// A server that lies, dawdles, or floods: an error in time, and no wrong value.
const assert = require("node:assert/strict");
const { once } = require("node:events");
const { createServer } = require("node:net");
const { test } = require("node:test");
const { gzipSync } = require("node:zlib");

const { BotwiredError, Incomplete, Memory, Refused, Unavailable } = require("../index.js");
const { Documents } = require("../lib/parts.js");

const entry = { namespace: "n", key: "k", value: "v", created_at: 1, updated_at: 2 };

/** Answers each request, on a connection of its own, with what `answer` sends. */
async function serve(t, answer) {
  const server = createServer((socket) => {
    socket.on("error", () => {}).once("data", () => answer(socket));
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  const sockets = new Set();
  server.on("connection", (socket) => sockets.add(socket));
  t.after(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return `http://127.0.0.1:${server.address().port}`;
}

const memoryOf = (body, init) => new Memory("n", { url: "http://127.0.0.1:4", fetch: async () => new Response(body, init) });

test("a body that never ends counts as no answer", { timeout: 20_000 }, async (t) => {
  const url = await serve(t, (socket) => socket.write("HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n   "));
  await assert.rejects(new Memory("n", { url, timeout: 300, patience: 100 }).get("k"), (error) => error instanceof Unavailable && error.message.startsWith(`no answer from ${url} for 0.1 s: the answer did not end within 0.3 s`));
});

test("a body that is too long is not kept", { timeout: 20_000 }, async (t) => {
  const piece = Buffer.alloc(1_000_000);
  const url = await serve(t, (socket) => {
    socket.write("HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n");
    const flood = () => {
      while (socket.writable && socket.write(piece));
    };
    socket.on("drain", flood);
    flood();
  });
  await assert.rejects(new Memory("n", { url }).get("k"), /the answer is longer than 64 MiB/);
});

test("a runtime that lets the program reach no server is not waited for", { timeout: 20_000 }, async () => {
  const denied = Object.assign(new Error('Requires net access to "127.0.0.1:4", run again with the --allow-net flag'), { name: "NotCapable" });
  let tries = 0;
  const fetch = async () => {
    tries++;
    throw denied;
  };
  const memory = new Memory("n", { url: "http://127.0.0.1:4", fetch });
  await assert.rejects(memory.set("k", 1), (error) => {
    assert.ok(error instanceof BotwiredError && error.cause === denied, error);
    assert.match(error.message, /Requires net access .* --allow-net/);
    return true;
  });
  assert.equal(tries, 1);
});

test("a body that cannot be decompressed", { timeout: 20_000 }, async (t) => {
  const url = await serve(t, (socket) => socket.end("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\nnono"));
  await assert.rejects(new Memory("n", { url }).set("k", 1), /not one of BotWire's/);
});

test("a compressed body", { timeout: 20_000 }, async (t) => {
  const body = gzipSync(JSON.stringify(entry));
  const url = await serve(t, (socket) => {
    socket.write(`HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: ${body.length}\r\n\r\n`);
    socket.end(body);
  });
  assert.equal(await new Memory("n", { url }).get("k"), "v");
});

test("a redirection is not followed", { timeout: 20_000 }, async (t) => {
  const url = await serve(t, (socket) => socket.end("HTTP/1.1 307 Go\r\nLocation: http://127.0.0.1:4/\r\nContent-Length: 0\r\n\r\n"));
  await assert.rejects(new Memory("n", { url }).set("k", 1), (error) => error instanceof Refused && error.status === 307);
});

for (const [name, body] of [
  ["a deep list", "[".repeat(100_000)],
  ["a number that no date is", JSON.stringify(entry).replace('"created_at":1', '"created_at":1e400')],
  ["no number", JSON.stringify({ ...entry, created_at: "1" })],
  ["a lone surrogate", JSON.stringify({ ...entry, value: "\ud800" })],
  ["a value that is no text", JSON.stringify({ ...entry, value: 1 })],
  ["no UTF-8", Buffer.from(JSON.stringify({ ...entry, value: "\xff" }), "latin1")],
  ["nothing", null],
]) {
  test(`JSON with ${name}`, () => assert.rejects(memoryOf(body).get("k"), (error) => error.constructor === BotwiredError && /not one of BotWire's/.test(error.message)));
}

const rowsOf = (count) => Array.from({ length: count }, (_, n) => ({ key: `k${n}`, bytes: 1, updated_at: 1 }));

/** A memory whose namespace has at least 1,000 keys, and a daemon that answers with these pages of them. */
function pagesOf(...pages) {
  const first = { namespace: "n", count: 1000, keys: rowsOf(1000) };
  const answers = [new Response(JSON.stringify(first), { headers: { "cache-status": "botwired; hit" } }), ...pages.map(([body, init]) => new Response(JSON.stringify(body), init))];
  return new Memory("n", { url: "http://127.0.0.1:4", fetch: async () => answers.shift() });
}

const more = [{ key: "k7", op: "put" }, { key: "new", op: "put" }, { key: "old", op: "delete" }];
for (const [name, pages, found, warns] of [
  ["has all", [[{ entries: more, next: "new", complete: true }], [{ entries: [{ key: "z", op: "put" }], next: null, complete: true }]], ["new", "z"], false],
  ["may lack some", [[{ entries: more, next: null, complete: false }]], ["new"], true],
  ["is not there", [[{ detail: "Not Found" }, { status: 404 }]], [], true],
]) {
  test(`the daemon's list of further keys ${name}`, async (t) => {
    const emitWarning = t.mock.method(process, "emitWarning", () => {});
    const keys = await pagesOf(...pages).keys();
    assert.deepEqual(keys.slice(1000), found);
    assert.deepEqual(emitWarning.mock.calls.map(({ arguments: [warning] }) => warning instanceof Incomplete), warns ? [true] : []);
  });
}

for (const page of [{}, { entries: {} }, { entries: [null] }, { entries: [{ op: "put" }] }]) {
  test(`the page of keys ${JSON.stringify(page)} is no daemon's`, async () => {
    await assert.rejects(pagesOf([page]).keys(), (error) => error.constructor === BotwiredError && /not one of BotWire's/.test(error.message));
  });
}

for (const next of ["new", "a", 7, ["new"], true]) {
  test(`pages of keys that go round in a circle by ${JSON.stringify(next)}`, { timeout: 20_000 }, async () => {
    const first = { namespace: "n", count: 1000, keys: rowsOf(1000) };
    const fetch = async (url) =>
      new Response(JSON.stringify(url.includes("/entries") ? { entries: more, next, complete: true } : first), { headers: { "cache-status": "botwired; hit" } });
    await assert.rejects(new Memory("n", { url: "http://127.0.0.1:4", fetch }).keys(), (error) => error.constructor === BotwiredError && /not one of BotWire's/.test(error.message));
  });
}

test("a list that may lack keys", async (t) => {
  const emitWarning = t.mock.method(process, "emitWarning", () => {});
  const memory = memoryOf(JSON.stringify({ namespace: "n", count: 1, keys: rowsOf(1) }), { headers: { "botwired-list": "incomplete" } });
  assert.deepEqual(await memory.keys(), ["k0"]);
  assert.match(emitWarning.mock.calls[0].arguments[0].message, /the list of "n" may lack keys/);
});

test("more keys than a call has room for arguments", async () => {
  assert.equal((await pagesOf([{ entries: rowsOf(200_000), next: null, complete: true }]).keys()).length, 200_000);
});

test("a reason in FastAPI's words", async () => {
  await assert.rejects(memoryOf('{"detail":[{"type":"string_type"}]}', { status: 422 }).set("k", 1), /string_type/);
});

test("the headers of a request", async () => {
  const requests = [];
  const fetch = async (url, options) => {
    requests.push({ url, ...options });
    return new Response(JSON.stringify({ namespace: "n", key: "k", stored: true }));
  };
  await new Memory("n", { url: "http://botwired.test/base/", token: "sesame", fetch }).set("k", "é", { wait: 1200 });
  const [{ url, headers, body }] = requests;
  assert.equal(url, "http://botwired.test/base/memory/n/k");
  assert.equal(body, '{"value":"é"}');
  assert.deepEqual([headers.get("authorization"), headers.get("prefer"), headers.get("botwired-author")], ["Bearer sesame", "wait=2", null]);
  assert.match(headers.get("user-agent"), /^botwired-node\//);
});

test("a port that fetch blocks", async () => {
  await assert.rejects(new Memory("n", { url: "http://127.0.0.1:6000" }).get("k"), (error) => error instanceof Unavailable && /fetch blocks this port/.test(error.message));
});

test("TLS that is not agreed has sent nothing", { timeout: 20_000 }, async (t) => {
  const plain = (await serve(t, (socket) => socket.end("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"))).replace("http:", "https:");
  const failing = (code) => ({
    url: "https://127.0.0.1:4",
    fetch: async () => {
      throw new TypeError("fetch failed", { cause: Object.assign(new Error("no TLS"), { code }) });
    },
  });
  for (const options of [{ url: plain }, failing("DEPTH_ZERO_SELF_SIGNED_CERT"), failing("EPROTO")]) {
    await assert.rejects(new Memory("n", options).get("k"), (error) => error instanceof Unavailable && error.message.startsWith(`there is no botwired at ${options.url}: `));
  }
});

test("a part of a millisecond", { timeout: 20_000 }, async (t) => {
  const url = await serve(t, (socket) => socket.end(`HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n${JSON.stringify({ ...entry, stored: true })}`));
  const memory = new Memory("n", { url, timeout: 1e4 / 3, patience: 0.5 });
  assert.equal(await memory.get("k"), "v");
  await memory.set("k", "v", { wait: 0.5 });
});

test("a time without an end", { timeout: 20_000 }, async (t) => {
  const url = await serve(t, (socket) => socket.end(`HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n${JSON.stringify(entry)}`));
  assert.equal(await new Memory("n", { url, timeout: Infinity, patience: Infinity }).get("k"), "v");
  await assert.rejects(new Memory("n", { url }).set("k", "v", { wait: Infinity }), /wait must be a number of milliseconds/);
});

test("an attempt waits for as long as the daemon may wait for upstream", { timeout: 20_000 }, async (t) => {
  const url = await serve(t, (socket) => setTimeout(() => socket.end(`HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n${JSON.stringify({ ...entry, stored: true })}`), 500));
  await new Memory("n", { url, timeout: 100, patience: 1 }).set("k", "v", { wait: 10_000 });
});

test("a delete that the answer does not confirm", () => assert.rejects(memoryOf(JSON.stringify(entry)).delete("k"), /not one of BotWire's/));

test("the error of a fetch of the caller's own is the cause", async () => {
  const failed = new Error("no certificate for this host");
  const fetch = async () => {
    throw failed;
  };
  const refused = async () => {
    throw new TypeError("fetch failed", { cause: Object.assign(failed, { code: "ECONNREFUSED" }) });
  };
  for (const each of [fetch, refused]) {
    await assert.rejects(new Memory("n", { url: "http://127.0.0.1:4", patience: 1, fetch: each }).get("k"), (error) => {
      assert.ok(error instanceof Unavailable && error.message.includes(failed.message));
      return error.cause === failed || error.cause.cause === failed;
    });
  }
});

test("a long value whose tag a gateway drops is not deleted on no condition", async () => {
  const methods = [];
  const fetch = async (url, { method }) => {
    methods.push(method);
    return new Response(JSON.stringify({ ...entry, deleted: true }), { headers: { "cache-status": "botwired; hit" } });
  };
  const documents = new Documents(new Memory("n", { url: "http://127.0.0.1:4", fetch }), (name) => name);
  await assert.rejects(documents.remove("k"), /a gateway on the way drops/);
  assert.deepEqual(methods, ["GET"]);
});

test("parts that are no JSON together are no value", async () => {
  const fetch = async (url) => {
    const key = url.split("/").at(-1);
    const value = key === "k" ? '{"botwired":"parts","parts":["a"]}' : '="cut of';
    return new Response(JSON.stringify({ ...entry, key, value }));
  };
  const documents = new Documents(new Memory("n", { url: "http://127.0.0.1:4", fetch }), (name) => name);
  await assert.rejects(documents.load("k"), (error) => error instanceof BotwiredError && /the parts of the value of "k" are no JSON/.test(error.message));
});
