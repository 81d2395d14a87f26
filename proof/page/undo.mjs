// Scenarios of a person who looks back: at the versions of an entry, and at a namespace as it was.

import assert from "node:assert/strict";

const row = (page, text) => page.locator(".version").filter({ hasText: text });

// Two of three versions are compared. Upstream is away when the first one is brought back, and gets it later.
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
  assert.deepEqual(await page.locator(".compared .differs").allInnerTexts(), ['  "plan": "second",\n', '  "plan": "third",\n']);
  await row(page, "first").getByRole("radio").first().press("Space");
  await visit.shows(".compared .differs", "first");
  await row(page, "second").getByRole("radio").last().check();
  assert.deepEqual(await page.locator(".compared .differs").allInnerTexts(), ['  "plan": "first",\n', '  "plan": "second",\n']);

  daemon.gate.set("shut");
  await page.locator(".compared").first().getByRole("button", { name: "Undo to this version" }).press("Enter");
  await visit.shows("dialog [role=status]", "Done: the entry is as it was at");
  await row(page, "the present one").filter({ hasText: "by dashboard on this host · on its way to upstream" }).waitFor();
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
  await visit.shows(".compared", "one");
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
  await visit.shows(".compared", "No entry: it was deleted.");
  await visit.click("Undo to this version", "dialog");
  await visit.shows("dialog [role=status]", "Done");
  assert.equal(await daemon.read("undo/deleted"), "kept");
}

export async function historyHasAReason({ daemon, visit }) {
  visit.expect(/404 /);
  await visit.go(daemon.url, "memory/undo/never");
  await visit.shows(".value .empty-title", "There is no such entry.");
  await visit.click("History");
  await visit.shows("dialog .empty-title", "No version of undo/never is known: it was never written here, and upstream has not shown it.");
}
