// Scenarios of a person who decides on many dead letters at once, and of one who takes an entry elsewhere.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";

async function refuse(daemon, entries) {
  daemon.gate.set("refusing");
  for (const entry of entries) await daemon.write(entry, `value of ${entry}`);
  await daemon.flush();
  daemon.gate.set("open");
}

// All dead letters of one namespace are retried by a click, and then discarded by another: nobody else's.
export async function allOfANamespace({ daemon, visit }) {
  const { page } = visit;
  const many = ["many/one", "many/two"]; // of more that are refused one after another, some would wait
  const letters = (namespace) => page.locator(".letter").filter({ has: page.locator(".space", { hasText: namespace }) });
  const wait = (namespace, n) => page.waitForFunction(([name, wanted]) =>
    [...document.querySelectorAll(".letter .space")].filter((e) => e.textContent === name).length === wanted, [namespace, n]);
  await refuse(daemon, [...many, "other/one"]);
  await visit.go(daemon.url, "dead-letters");
  await wait("many", many.length);
  await page.getByLabel("Only of this namespace").fill("many");
  await visit.click("Retry all of many that upstream refused");
  await wait("many", 0);
  await daemon.flush();
  for (const entry of many) assert.equal(await daemon.readUpstream(entry), `value of ${entry}`);

  await refuse(daemon, many);
  await wait("many", many.length);
  await visit.click("Discard all of many");
  await visit.shows("dialog", "Discard 2 dead letters?");
  await visit.click("Discard all", "dialog");
  await wait("many", 0);
  await page.getByLabel("Only of this namespace").fill("");
  await wait("other", 1);
  assert.equal(await letters("other").count(), 1);
  await visit.click("Discard all");
  await visit.click("Discard all", "dialog");
  await visit.shows(".empty-title", "There are no dead letters.");
  assert.equal(await daemon.readUpstream("other/one"), null);
}

// The clipboard holds what runs: curl fetches the entry, and the others name this daemon and entry.
export async function copiesAs({ daemon, visit }) {
  const { page } = visit;
  await visit.context.grantPermissions(["clipboard-read", "clipboard-write"], { origin: daemon.url });
  await daemon.write("copy/entry", "taken along");
  await visit.go(daemon.url, "memory/copy/entry");
  await visit.click("Copy as…");
  const copied = async (kind) => {
    await visit.click(kind, "dialog");
    await visit.click("Copy", "dialog");
    await visit.shows("dialog button", "Copied");
    return page.evaluate(() => navigator.clipboard.readText());
  };
  const answer = execFileSync("sh", ["-c", await copied("curl")], { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] });
  assert.equal(JSON.parse(answer).value, "taken along");
  const python = await copied("Python");
  assert.match(python, new RegExp(`^memory = Memory\\("copy", base_url="${daemon.url}"\\)\nvalue = memory\\.get\\("entry"\\)$`, "m"));
  execFileSync("python3", ["-c", "import ast, sys; ast.parse(sys.argv[1])", python]);
  const { botwired } = JSON.parse(await copied("MCP")).mcpServers;
  assert.deepEqual(botwired, { command: "botwired", args: ["mcp", `--listen=${new URL(daemon.url).host}`] });
}
