// Every view is without barriers for anybody and no wider than the screen, in both colour schemes
// and on both sizes of a screen. Each is also drawn, for a person to look at.

import assert from "node:assert/strict";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { Visit } from "./browser.mjs";

const FOLDER = join(import.meta.dirname, "../../bin/page");

const CHAT = JSON.stringify([
  { type: "human", data: { content: "Where did I park the car?" } },
  { type: "ai", data: { content: "You told me on Tuesday: level 3, next to the lift. I can remind you tomorrow morning." } },
  { type: "human", data: { content: "Yes please, at 8." } },
  { type: "ai", data: { content: "", tool_calls: [{ name: "set_reminder" }] } },
  { type: "tool", data: { content: "ok" } },
  { type: "ai", data: { content: "Done. I will remind you at 8." } },
]);
const PROFILE = JSON.stringify({ name: "Ada", languages: ["en", "fr"], score: 0.93, active: true, since: null, pets: [{ kind: "cat", name: "Mephisto" }] });
const LONG = "support-bot-eu-central-production-tenant-0000000000000042-memory";

// VIEWS are the place of each, what is there once it has been read, and what a person clicks then, with what
// that shows.
export const VIEWS = {
  overview: ["", ".write"],
  namespaces: ["memory", ".namespaces .rows a"],
  entries: ["memory/chats", ".entries .rows a"],
  conversation: ["memory/chats/session-42", ".conversation li"],
  json: ["memory/chats/profile", ".json-name"],
  "long-text": ["memory/notes/text", "pre.text"],
  history: ["memory/notes/note-1", ".value-view", "History", ".changes mark"],
  rewind: ["memory/chats", ".entries .rows a", "Undo…", "dialog .named"],
  "long-names": [`memory/${LONG}`, ".entries .rows a"],
  "dead-letters": ["dead-letters", ".letter"],
  conflict: ["dead-letters", ".lost", "Compare", ".changes mark"],
};

// FRESH are those of a daemon that knows nothing yet.
export const FRESH = {
  "fresh-overview": ["", '.top .state:text("not asked yet")'],
  "fresh-memory": ["memory", ".namespaces .empty-title"],
  "fresh-dead-letters": ["dead-letters", ".empty-title"],
};

// furnish gives the views something to show.
export async function furnish(daemon) {
  await daemon.write("chats/session-42", CHAT);
  await daemon.write("chats/profile", PROFILE);
  await daemon.write("notes/note-1", "Note 1, as it was", "another-agent");
  for (let i = 1; i <= 12; i++) await daemon.write(`notes/note-${i}`, `Note ${i}`);
  await daemon.write("notes/text", "word ".repeat(15_000));
  await daemon.write(`${LONG}/${"a.very-long_key.".repeat(8)}`, "long");
  await daemon.flush();
  daemon.gate.set("shut");
  await daemon.write("chats/mood", JSON.stringify({ mood: "calm", energy: 0.4, notes: ["slept well"] }));
  await daemon.writeUpstream("chats/mood", JSON.stringify({ mood: "curious", energy: 0.4, notes: ["slept well", "read a paper"] }));
  daemon.gate.set("open");
  await daemon.flush();
  daemon.gate.set("refusing");
  await daemon.write("chats/refused", PROFILE);
  await daemon.flush();
  daemon.gate.set("shut");
  for (const value of ["draft", "final"]) await daemon.write("chats/on-its-way", value);
  await daemon.write(`${LONG}/waiting`, "x");
}

// notWider fails if something makes the page scroll sideways.
async function notWider(page) {
  const [content, screen] = await page.evaluate(() => [document.documentElement.scrollWidth, document.documentElement.clientWidth]);
  assert.ok(content <= screen, `the page is ${content} pixels wide on a screen of ${screen}`);
}

// clickFor clicks a button, the first of that name, and waits for what that shows.
async function clickFor(visit, button, outcome) {
  await visit.page.getByRole("button", { name: button, exact: true }).first().click();
  await visit.page.locator(outcome).first().waitFor();
}

// look visits every view at a size and in a scheme, and searches it for barriers if it is told so.
export async function look(browser, daemon, views, { width, height, colorScheme, searching }) {
  mkdirSync(FOLDER, { recursive: true });
  const visit = await Visit.open(browser, { viewport: { width, height }, colorScheme });
  try {
    for (const [name, [place, sign, button, outcome]] of Object.entries(views)) {
      await visit.go(daemon.url, place);
      await visit.live();
      await visit.page.locator(sign).first().waitFor();
      if (button) await clickFor(visit, button, outcome);
      await visit.page.screenshot({ path: join(FOLDER, `${name}-${width}-${colorScheme}.png`), fullPage: true });
      await notWider(visit.page);
      if (searching) assert.deepEqual(await visit.barriers(), [], `${name} has barriers`);
    }
    assert.deepEqual(visit.complaints, []);
  } finally {
    await visit.close();
  }
}
