"use strict";

// The blocks of docs/typescript.md and of the package's README do what the pages say. Those for a framework are run with it:
// test/frameworks.
const assert = require("node:assert/strict");
const { execFileSync } = require("node:child_process");
const { lstatSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } = require("node:fs");
const { tmpdir } = require("node:os");
const path = require("node:path");
const { test } = require("node:test");

const { daemon } = require("./daemon.js");

const here = path.join(__dirname, "..");

for (const page of ["docs/typescript.md", "clients/node/README.md"]) {
  test(page, { timeout: 60_000 }, async (t) => {
    const text = readFileSync(path.join(here, "../..", page), "utf8");
    const blocks = [...text.matchAll(/^```js\n(.*?)^```$/gms)].map(([, block]) => block).filter((block) => !block.includes('from "@langchain'));
    assert.ok(blocks.length > 0);
    const server = await daemon().start();
    const folder = mkdtempSync(path.join(tmpdir(), "botwired-node-"));
    t.after(async () => {
      await server.remove();
      rmSync(folder, { recursive: true });
    });
    mkdirSync(path.join(folder, "node_modules"));
    symlinkSync(here, path.join(folder, "node_modules", "botwired"));
    const script = path.join(folder, "page.mjs");
    writeFileSync(script, blocks.join("\n").replaceAll("http://127.0.0.1:2689", server.url));
    execFileSync(process.execPath, [script], { env: { ...process.env, BOTWIRE_URL: server.url }, encoding: "utf8" });
  });
}

test("installed as docs/typescript.md says, the package finds what is installed beside it, also after a later npm install", { timeout: 60_000 }, (t) => {
  const text = readFileSync(path.join(here, "../../docs/typescript.md"), "utf8");
  const [, commands] = text.match(/^```console\n(.*?npm install.*?)^```$/ms);
  const folder = mkdtempSync(path.join(tmpdir(), "botwired-node-"));
  t.after(() => rmSync(folder, { recursive: true }));
  writeFileSync(path.join(folder, "package.json"), "{}");
  const env = { ...process.env, npm_config_offline: "true", npm_config_audit: "false", npm_config_update_notifier: "false" };
  const script = `${commands.replaceAll("PATH_OF_THE_CLONE", path.join(here, "../.."))}npm install`;
  execFileSync("sh", ["-e", "-c", script], { cwd: folder, env, encoding: "utf8" });
  assert.ok(lstatSync(path.join(folder, "node_modules/botwired")).isDirectory(), "npm has only linked it");
});
