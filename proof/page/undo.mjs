// Scenarios of a person who looks back: at the versions of an entry, and at a namespace as it was.

import assert from "node:assert/strict";
import { Daemon } from "./servers.mjs";

const row = (page, text) => page.locator(".version").filter({ hasText: text });

// lines are the lines of a kind that the page shows of a change, with their signs.
const lines = (page, kind) => page.locator(`.line.${kind}`).allInnerTexts().then((all) => all.map((text) => text.replace(/\s+/g, " ").trim()));

// A click on a version shows it against the present one. Upstream is away when the first one is brought back, and gets
// it later.
export async function versionIsBroughtBack({ daemon, visit }) {
  const { page } = visit;
  for (const [value, author] of [['{"plan":"first","n":1}', "planner"], ['{"plan":"second","n":1}', "planner"], ['{"plan":"third","n":1}', "wrecker"]]) {
    await daemon.write("undo/entry", value, author);
    await daemon.flush();
  }
  await visit.go(daemon.url, "memory/undo/entry");
  await visit.live();
  await visit.click("History");
  await row(page, "third").filter({ hasText: "by wrecker on this host · settled" }).filter({ hasText: "the present one" }).waitFor();
  assert.equal(await page.locator(".version").count(), 3);
  assert.deepEqual([await lines(page, "removed"), await lines(page, "added")], [['− removed: "plan": "second",'], ['+ added: "plan": "third",']]);
  assert.equal(await page.locator("dialog input").count(), 0); // nothing to explain
  await row(page, "first").getByRole("button").press("Space");
  await visit.shows(".changes del mark", "first");
  assert.deepEqual(await page.locator(".changes mark").allInnerTexts(), ["first", "third"]);
  assert.deepEqual(await lines(page, "same"), ["{", '"n": 1', "}"]);
  const inks = await page.locator(".changes mark").evaluateAll((marks) => marks.map((e) => [getComputedStyle(e).backgroundColor, getComputedStyle(e).textDecorationLine]));
  assert.notEqual(inks[0][0], inks[1][0]);
  assert.deepEqual(inks.map(([, line]) => line), ["line-through", "underline"]); // two colours are one for some
  await row(page, "third").getByRole("button").click();
  await visit.shows(".since h3", "As the present one");
  await row(page, "first").getByRole("button").click();

  daemon.gate.set("shut");
  await page.getByRole("button", { name: "Undo to this version" }).press("Enter");
  await visit.shows("dialog [role=status]", "Done: the entry is as it was at");
  await row(page, "the present one").filter({ hasText: "by dashboard on this host · pending" }).waitFor();
  assert.equal(JSON.parse(await daemon.read("undo/entry")).plan, "first");
  daemon.gate.set("open");
  await daemon.flush();
  await row(page, "the present one").filter({ hasText: "by dashboard on this host · settled" }).waitFor();
  assert.equal(JSON.parse(await daemon.readUpstream("undo/entry")).plan, "first");
  await page.keyboard.press("Escape");
  await visit.shows(".json", "first");
  assert.equal(await page.evaluate(() => document.activeElement.textContent), "History"); // the focus is where it was
}

// An agent writes while a person looks at the versions: the page says so, and an undo of what it has shown before
// writes nothing.
export async function undoOverwritesNothingUnseen({ daemon, visit }) {
  visit.expect(/412 .*\/_botwired\/undo/);
  for (const value of ["one", "two"]) await daemon.write("undo/raced", value);
  await visit.go(daemon.url, "memory/undo/raced");
  await visit.live();
  await visit.click("History");
  await visit.shows(".changes", "one");
  await daemon.write("undo/raced", "three");
  await visit.shows("dialog [role=status]", "The entry has changed since.");
  assert.equal(await visit.page.locator(".version").count(), 2); // what was shown stays until a person wants the rest
  await visit.click("Undo to this version", "dialog");
  await visit.shows("dialog .problem", "Somebody has written this entry since it was shown here, so nothing is undone.");
  await row(visit.page, "three").filter({ hasText: "the present one" }).waitFor();
  assert.equal(await daemon.read("undo/raced"), "three");
  await visit.click("Undo to this version", "dialog");
  await visit.shows("dialog [role=status]", "Done");
  assert.equal(await daemon.read("undo/raced"), "one");
}

export async function deletedIsBroughtBack({ daemon, visit }) {
  visit.expect(/404 .*\/memory\/undo\/deleted/);
  await daemon.write("undo/deleted", "kept");
  await visit.go(daemon.url, "memory/undo/deleted");
  await visit.click("Delete", ".actions");
  await visit.click("Delete", "dialog");
  await visit.shows(".value .empty-title", "There is no such entry.");
  await visit.click("History");
  await visit.shows(".since", "There is no entry now: it was deleted.");
  assert.deepEqual(await lines(visit.page, "removed"), ["− removed: kept"]);
  await visit.click("Undo to this version", "dialog");
  await visit.shows("dialog [role=status]", "Done");
  assert.equal(await daemon.read("undo/deleted"), "kept");
}

export async function historyHasAReason({ daemon, visit }) {
  visit.expect(/404 /);
  await visit.go(daemon.url, "memory/undo/never");
  await visit.shows(".value .empty-title", "There is no such entry.");
  await visit.click("History");
  await visit.shows("dialog .empty-title", "No version of undo/never is known: it was never written here, or was purged, and upstream has not shown it.");
}

const MANY = 300; // entries: more than a page of an undo has

// wreck has one program overwrite the entries of another, with upstream away, and make a new one. The other then
// overwrites one more. It returns the time before all that, in milliseconds.
async function wreck(daemon) {
  const all = (write) => Promise.all(Array.from({ length: MANY }, (_, i) => write(i)));
  await all((i) => daemon.write(`back/item-${i}`, `good ${i}`, "planner"));
  await daemon.flush();
  const before = Math.ceil(Date.now() / 1000) * 1000; // a person chooses whole seconds
  while (Date.now() <= before) await new Promise((resolve) => setTimeout(resolve, 20));
  await fetch(`${daemon.url}/memory/back`, { headers: { "Cache-Control": "no-cache" } }); // upstream is seen without the new one
  daemon.gate.set("shut");
  await all((i) => daemon.write(`back/item-${i}`, "wrecked", "wrecker"));
  await daemon.write("back/new", "wrecked", "wrecker");
  await daemon.write("back/item-0", "later", "planner");
  return before;
}

const localTime = (at) => new Date(at - new Date(at).getTimezoneOffset() * 60_000).toISOString().slice(0, 19);

// The writes of one of two programs are undone, over an error in the middle, and then everybody's.
export async function namespaceIsBroughtBack(inVisit) {
  const daemon = new Daemon();
  try {
    await daemon.start("--quota-writes-per-day", "0");
    const before = await wreck(daemon);
    await inVisit(daemon, async (visit) => {
      const { page } = visit;
      visit.expect(/409 .*\/undo\/namespace/);
      visit.expect(/ERR_FAILED .*after=/);
      const look = async () => {
        await visit.click("Undo…");
        await page.getByLabel("The time to go back to").fill(localTime(before + 3_600_000));
        await visit.shows("dialog .problem", "Choose a time that is over.");
        await page.getByLabel("The time to go back to").fill(localTime(before));
      };
      await visit.go(daemon.url, "memory/back");
      await look();
      await visit.shows("dialog", "Several programs have written here since then.");
      assert.ok(await page.getByRole("button", { name: "Undo these writes" }).isDisabled());
      await page.getByLabel(`planner (1 entry)`).waitFor();
      await page.getByLabel(`wrecker (${MANY + 1} entries)`).press("Space");
      await visit.shows("dialog", `${MANY - 1} entries would come back, 1 entry that is new since then would go, 1 entry would be left as it is.`);
      await visit.shows(".named li", "item-0 stays: planner has written it since");
      await page.route(/undo\/namespace.*after=/, (route) => route.abort(), { times: 1 });
      await page.getByRole("button", { name: "Undo these writes" }).press("Enter");
      await visit.shows("dialog [role=status]", `256 of ${MANY + 1} entries so far.`);
      await visit.shows("dialog .problem", "The daemon does not answer.");
      await visit.click("Go on");
      await visit.shows("dialog [role=status]", `Done. ${MANY - 1} entries came back, 1 entry that was new went, 1 entry stayed as it is.`);
      for (let i = 1; i < MANY; i++) assert.equal(await daemon.read(`back/item-${i}`), `good ${i}`);
      assert.equal(await daemon.read("back/new"), null);
      assert.equal(await daemon.read("back/item-0"), "later");

      await visit.click("Close", "dialog footer");
      await look();
      await page.getByLabel("Everybody, on other hosts too").check();
      await visit.shows("dialog", "1 entry would come back, ");
      await visit.click("Undo these writes");
      await visit.shows("dialog [role=status]", "Done. 1 entry came back.");
      daemon.gate.set("open");
      await daemon.flush();
      for (let i = 0; i < MANY; i++) assert.equal(await daemon.readUpstream(`back/item-${i}`), `good ${i}`);
      assert.equal(await daemon.readUpstream("back/new"), null);
    });
  } finally {
    await daemon.stop();
  }
}
