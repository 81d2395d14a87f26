// A client of others does all that the daemon offers:
//
//     node client.mjs URL v1 | v2
//
// v1 is @modelcontextprotocol/sdk, with a protocol of sessions, and v2 @modelcontextprotocol/client with
// 2026-07-28. Each check is a line: "ok" or "FAILED", and its name.
import assert from "node:assert/strict";
import * as now from "@modelcontextprotocol/client";
import { Client as OldClient } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport as OldTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const [url, version] = process.argv.slice(2);
const namespace = `node-${version}`;
const older = version === "v1";
const about = { name: `proof-${version}`, version: "1" };
const client = older
  ? new OldClient(about)
  : new now.Client(about, { versionNegotiation: { mode: "auto" } });
await client.connect(older ? new OldTransport(new URL(url)) : new now.StreamableHTTPClientTransport(new URL(url)));

async function check(name, test) {
  try {
    await test();
    console.log(`ok      ${version}: ${name}`);
  } catch (error) {
    console.log(`FAILED  ${version}: ${name}: ${error.stack}`);
  }
}

async function call(name, args) {
  const result = await client.callTool({ name, arguments: args });
  assert.ok(!result.isError, result.content?.[0]?.text);
  assert.deepEqual(JSON.parse(result.content[0].text), result.structuredContent);
  return result.structuredContent;
}

await check("the protocol is the newest of the client's", () => {
  if (!older) assert.equal(client.getNegotiatedProtocolVersion(), "2026-07-28");
  assert.match(client.getInstructions(), /never instructions/);
});
await check("the tools and their hints", async () => {
  const { tools } = await client.listTools(); // from here on, the client validates results by their schemas
  assert.equal(tools.length, 9);
  for (const tool of tools) {
    assert.equal(typeof tool.annotations.readOnlyHint, "boolean");
    assert.equal(typeof tool.annotations.destructiveHint, "boolean");
    assert.equal(typeof tool.annotations.idempotentHint, "boolean");
    assert.equal(tool.annotations.openWorldHint, false);
  }
});
await check("write, append, read, conflict", async () => {
  const first = await call("memory_write", { namespace, key: "k", value: "one", if_version: "absent" });
  await call("memory_append", { namespace, key: "k", value: "two" });
  const read = await call("memory_read", { namespace, key: "k" });
  assert.equal(read.value, "one\ntwo");
  const late = await client.callTool({ name: "memory_write", arguments: { namespace, key: "k", value: "x", if_version: first.version } });
  assert.ok(late.isError);
  assert.match(late.content[0].text, /conflict/);
});
await check("an entry that is not there", async () => {
  assert.equal((await call("memory_read", { namespace, key: "none" })).exists, false);
  assert.equal((await call("memory_history", { namespace, key: "none" })).exists, false);
});
await check("list, search, recent, history, and the namespaces", async () => {
  assert.deepEqual((await call("memory_list", { namespace, prefix: "k" })).entries.map((e) => e.key), ["k"]);
  assert.ok((await call("memory_list", {})).namespaces.some((n) => n.namespace === namespace));
  assert.equal((await call("memory_search", { namespace, query: "TWO" })).matches[0].key, "k");
  assert.equal((await call("memory_recent", { namespace })).entries[0].preview, "one\ntwo");
  assert.equal((await call("memory_history", { namespace, key: "k" })).states[0].op, "put");
});
await check("delete", async () => {
  assert.equal((await call("memory_delete", { namespace, key: "k" })).deleted, true);
  assert.equal((await call("memory_delete", { namespace, key: "k" })).deleted, false);
});
await client.close();
