// The package on the runtime that runs this: Node, Deno or Bun.
import assert from "node:assert/strict";
import { ABSENT, Conflict, Memory, Unavailable } from "botwired";

const memory = new Memory(`runtime-${crypto.randomUUID()}`, { author: "Müller" });
const value = { a: [1, -0, null, "caf\udc97 \0"], n: 2n ** 64n };
await memory.set("a key: 長", value);
assert.deepEqual(await memory.get("a key: 長"), value);
await Promise.all(Array.from({ length: 20 }, () => memory.update("n", (n = 0) => n + 1)));
assert.equal(await memory.get("n"), 20);
assert.equal(await memory.append("log", "one"), "one");
assert.equal(await memory.append("log", "two"), "one\ntwo");
await assert.rejects(memory.set("n", 1, { ifVersion: ABSENT }), Conflict);
assert.equal((await memory.history("n"))[0].author, "Müller");
assert.equal((await memory.undo("log")).value, "one");
assert.deepEqual((await memory.keys()).sort(), ["a key: 長", "log", "n"]);
assert.equal(memory.state, undefined);
for (const url of ["http://127.0.0.1:1", "http://nowhere.invalid:2689"]) {
  await assert.rejects(new Memory("n", { url }).get("k"), (error) => error instanceof Unavailable && error.message.includes("`botwired run -- COMMAND`"));
}
console.log("ok", globalThis.Deno ? "Deno" : globalThis.Bun ? "Bun" : "Node", process.version);
