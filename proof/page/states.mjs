// Scenarios of trouble: whatever is wrong, the sentence, the corner, the namespaces and the entries say the same.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { BINARY, Daemon } from "./servers.mjs";

const ENTRIES = 12; // of which upstream must lack half before the daemon calls it a loss

// agrees checks that the corner has the sentence's colour, and a word.
export async function agrees(visit, word) {
  await visit.shows(".top .state", word);
  const [corner, sentence] = await Promise.all([".top .state", ".sentence"].map((selector) => visit.page.locator(selector).last().getAttribute("class")));
  const level = /critical|warning|notice|ok/.exec(sentence)[0];
  assert.ok(corner.split(" ").includes(/outage/.test(sentence) ? "critical" : level), `the corner is ${corner}, and the sentence ${sentence}`);
}

// notGreen checks that a namespace and its entries are not shown as settled, in colour or in words.
export async function notGreen(visit, daemon, namespace, word, entry) {
  const { page } = visit;
  await visit.go(daemon.url, `memory/${namespace}`);
  const row = page.locator(".namespaces .rows li").filter({ has: page.locator(`.name:text-is("${namespace}")`) });
  await row.filter({ hasText: word }).locator(".dot:is(.bad, .warn)").waitFor();
  await visit.shows(".entries .rows .note", entry);
  assert.equal(await page.locator(".entries .rows .dot.settled").count(), 0);
  assert.equal(await page.locator(".entries .rows .dot:is(.bad, .warn)").count(), await page.locator(".entries .rows li").count());
}

// Upstream has lost what it had confirmed. A click gives it back.
export async function lossIsShown(inVisit, look) {
  const daemon = new Daemon();
  try {
    await daemon.start();
    for (let i = 0; i < ENTRIES; i++) await daemon.write(`planner/item-${i}`, `kept ${i}`);
    await daemon.flush();
    await daemon.list("planner");
    await inVisit(daemon, async (visit) => {
      const { page } = visit;
      visit.expect(/504 .*\/restore/);
      await visit.go(daemon.url, "memory/planner");
      await page.locator(".entries .dot.settled").first().waitFor();
      await loseAll(daemon);
      await visit.shows(".sentence.critical h1", "planner"); // the page was open
      await visit.shows(".namespaces .rows", "data loss");
      await notGreen(visit, daemon, "planner", "data loss", "upstream may lack it");
      await agrees(visit, "data loss");
      await visit.go(daemon.url, "memory/planner/item-3");
      await visit.shows(".details .trouble", "data loss");
      await visit.go(daemon.url);
      await agrees(visit, "data loss");
      await page.locator(".write.lost").first().filter({ hasText: "upstream may lack it" }).waitFor();
      assert.equal(await page.locator(".write.settled").count(), 0);
      await look?.(daemon);

      await visit.click("Restore planner…", ".sentence");
      await visit.click("Restore planner", "dialog");
      await visit.shows(".sentence.ok h1", "Everything is safe");
      await agrees(visit, "up");
      await daemon.flush(); // they are safe here before upstream has them
      for (let i = 0; i < ENTRIES; i++) assert.equal(await daemon.readUpstream(`planner/item-${i}`), `kept ${i}`);
      await visit.go(daemon.url, "memory/planner");
      await page.locator(".entries .dot.settled").first().waitFor();
      await page.locator(".namespaces .trouble").waitFor({ state: "detached" });
    });
  } finally {
    await daemon.stop();
  }
}

// loseAll has upstream begin anew with nothing, and the daemon see that.
export async function loseAll(daemon) {
  await daemon.upstream.stop();
  for (const more of ["", "-wal", "-shm"]) rmSync(join(daemon.folder, `upstream.db${more}`), { force: true });
  await daemon.upstream.start();
  for (let tries = 0; tries < 100; tries++) {
    await daemon.list("planner");
    if ((await daemon.status()).summary.kind === "data_loss") return;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  assert.fail("the daemon does not notice that upstream has lost everything");
}

// Upstream refuses the writes of an account. The page sends them at once when a person says so.
export async function refusalIsShown({ daemon, visit }) {
  await daemon.write("refusal/settled", "1");
  await daemon.flush();
  daemon.gate.set("forbidding");
  await daemon.write("refusal/waits", "1");
  await visit.go(daemon.url);
  await visit.shows(".sentence.warning h1", "Upstream does not let the writes of refusal in");
  await agrees(visit, "refuses writes");
  await notGreen(visit, daemon, "refusal", "writes refused", "refused by upstream, waits");
  await visit.shows(".entries .rows .note", "settled, writes refused");
  await agrees(visit, "refuses writes");
  daemon.gate.set("open");
  await visit.click("Send now", ".sentence");
  await visit.page.locator(".entries .rows .dot.settled").nth(1).waitFor();
  await visit.shows(".sentence.ok h1", "Everything is safe");
  await visit.page.locator(".namespaces .trouble").waitFor({ state: "detached" });
  await agrees(visit, "up");
}

// Of a sealed namespace upstream holds a value that is not sealed.
export async function closedIsShown(inVisit, look) {
  const daemon = new Daemon();
  const [keys, config] = ["keys", "config.json"].map((name) => join(daemon.folder, name));
  execFileSync(BINARY, ["seal", "keygen", keys], { stdio: "ignore" });
  writeFileSync(config, JSON.stringify({ seal: { key_file: keys }, namespaces: [{ match: "private-*", sealed: true }] }));
  try {
    await daemon.start("--config", config, "--cache-fresh-for", "0s");
    for (const key of ["diary", "letters"]) await daemon.write(`private-agent/${key}`, `dear ${key}`);
    await daemon.flush();
    const [hidden] = daemon.gate.writes;
    await daemon.writeUpstream(hidden.replace(/^\/memory\//, ""), "planted");
    for (const key of ["diary", "letters"]) await fetch(`${daemon.url}/memory/private-agent/${key}`, { headers: { "Cache-Control": "no-cache" } });
    await inVisit(daemon, async (visit) => {
      visit.expect(/(502|503) .*\/memory\/private-agent/);
      await visit.go(daemon.url);
      await visit.shows(".sentence.warning h1", "Upstream holds what is not sealed with these keys in private-agent");
      await visit.shows(".sentence .inline-command", "botwired seal status");
      await agrees(visit, "does not open");
      await visit.shows(".write .state", "does not open");
      assert.equal(await visit.page.locator(".write.settled").count(), 0);
      await notGreen(visit, daemon, "private-agent", "does not open", "does not open");
      await visit.go(daemon.url, "memory/private-agent/letters");
      await visit.shows(".details", /Sealed\s*upstream cannot read it/);
      await look?.(daemon);
    });
  } finally {
    await daemon.stop();
  }
}

// In every state that the daemon may be in, the corner has the sentence's colour.
export async function cornerAgrees({ daemon, visit }) {
  const { page } = visit;
  const status = await daemon.status();
  let now = {};
  await visit.go(daemon.url);
  await page.route(/\/_botwired\/status/, (route) => route.fulfill({ json: { ...status, ...now } }));
  const finding = (kind, level, more) => ({ summary: { kind, level, text: `Something about ${kind}`, since: null, remedy: null, also: [] }, ...more });
  const down = { upstream: { ...status.upstream, state: "down", reason: "the bucket cannot be made" } };
  for (const [state, word] of [
    [finding("safe", "ok"), "up"], [finding("no_bucket", "critical", down), "no bucket"], [finding("upstream_down", "warning", down), "down"],
    [finding("data_loss", "critical"), "data loss"], [finding("upstream_lost", "critical"), "data loss"], [finding("writes_paused", "warning"), "refuses writes"],
    [finding("reads_refused", "warning"), "refuses reads"], [finding("not_opened", "warning"), "does not open"], [finding("dead_letters", "warning"), "dead letters"],
    [finding("disk_failed", "critical"), "disk failed"], [finding("writes_refused", "critical"), "takes no writes"], [finding("quota_used_up", "warning"), "quota used up"],
    [finding("one_of_tomorrow", "warning"), "needs attention"], [finding("one_of_tomorrow", "notice"), "up"],
  ]) {
    now = state;
    await visit.shows(".sentence h1", state.summary.text);
    await agrees(visit, word);
  }
}

// The commands of the sentence: what the page cannot do itself can be copied, and dead letters are a click away.
export async function commandsAreOffered({ daemon, visit }) {
  const { page } = visit;
  await visit.context.grantPermissions(["clipboard-read", "clipboard-write"], { origin: daemon.url });
  await visit.go(daemon.url);
  daemon.gate.set("shut");
  await daemon.write("commands/entry", "1");
  await visit.shows(".sentence .inline-command code", /^botwired doctor$/);
  await page.getByRole("button", { name: "Copy botwired doctor" }).click();
  await visit.shows(".inline-command", "Copied");
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), "botwired doctor");
  daemon.gate.set("open");
  await daemon.flush();
  daemon.gate.set("refusing");
  await daemon.write("commands/refused", "1");
  await daemon.flush();
  daemon.gate.set("open");
  await page.getByRole("link", { name: "See them" }).click();
  await visit.shows(".letter .why", "refused by the test");
  assert.equal(await page.getByRole("link", { name: "See them" }).count(), 0); // the person is there
  await visit.click("Retry", ".letter");
  await visit.shows(".empty-title", "There are no dead letters.");
}
