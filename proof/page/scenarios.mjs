// The page's scenarios: in each a person does something, and the page shows the outcome.

import assert from "node:assert/strict";
import http from "node:http";
import { once } from "node:events";
import { allOfANamespace, copiesAs } from "./decisions.mjs";
import { chatsAreConversations, keysAreDecoded, keysAreThePythonPackages, namesAreWholeOnAPhone, noQuotaNoCard } from "./reading.mjs";
import { Daemon } from "./servers.mjs";
import { commandsAreOffered, cornerAgrees, refusalIsShown } from "./states.mjs";
import { deletedIsBroughtBack, historyHasAReason, undoOverwritesNothingUnseen, versionIsBroughtBack } from "./undo.mjs";

const OUTAGE_SHOWN = 2000; // milliseconds
const THREE_LINES = 80; // pixels

// flow is the row of an entry's newest write.
const flow = (key, state) => `.write.${state}:has(.key:text-is("${key}"))`;

async function leads({ daemon, visit }) {
  await visit.page.goto(`${daemon.url}/`);
  await visit.page.locator(".sentence h1").waitFor();
  assert.equal(new URL(visit.page.url()).pathname, "/_botwired/");
}

// A write is held on its way, and then let go: the page shows both without being loaded again.
async function settlesLive({ daemon, visit }) {
  await visit.go(daemon.url);
  await visit.live();
  daemon.gate.set("held");
  await daemon.write("live/first", "1");
  await visit.page.locator(`${flow("first", "pending")}, ${flow("first", "sent")}`).first().waitFor();
  await visit.shows(".tile", /Pending\s*1/);
  daemon.gate.set("open");
  await visit.page.locator(flow("first", "settled")).waitFor();
  await visit.shows(".sentence.ok h1", "");
}

// Upstream forbids the writes to a namespace: they wait, and the page says that upstream refuses them.
async function forbiddenWaits({ daemon, visit }) {
  daemon.gate.set("forbidding");
  await daemon.write("forbidden/waits", "1");
  await visit.go(daemon.url);
  await visit.page.locator(flow("waits", "refused")).filter({ hasText: "refused by upstream, waits" }).waitFor();
  await visit.shows(".tile", /Pending\s*1\s*1 refused by upstream/);
  daemon.gate.set("open");
  await daemon.flush();
  await visit.page.locator(flow("waits", "settled")).waitFor();
  await visit.shows(".tile", /Pending\s*0/);
}

// Upstream says that the quota is used up, long before it is: the page says who says so, and until when.
async function throttledWaits({ daemon, visit }) {
  daemon.gate.set("throttling");
  await daemon.write("throttled/later", "1");
  await visit.go(daemon.url);
  await visit.page.locator(flow("later", "waits")).waitFor();
  await visit.shows(".sentence.warning h1", /^Upstream says that the quota of throttled is used up \(HTTP 429\): 1 write waits until \d\d:\d\d UTC$/);
  await visit.shows(".quota.bad .note", /^used up, says upstream \(HTTP 429\): 1 write waits until /);
  daemon.gate.set("open");
  await daemon.flush();
  await visit.page.locator(flow("later", "settled")).waitFor();
}

// Writes from before the page was loaded are there, the newest first, with what has become of each.
async function lastWritesAreShown({ daemon, visit }) {
  const keys = Array.from({ length: 14 }, (_, i) => `write-${i}`);
  for (const key of keys) await daemon.write(`last/${key}`, "1");
  await daemon.flush();
  await visit.go(daemon.url);
  await visit.page.locator(flow("write-13", "settled")).waitFor();
  await visit.page.locator(flow("write-2", "settled")).waitFor();
  assert.deepEqual(await visit.page.locator(".write .key").allInnerTexts(), keys.slice(2).reverse());
}

// Little is left of a quota: the page says how many writes wait, and until when, in the colour of a warning. The pace
// lets the last two writes go late in the quota's day, in UTC: then they are used up before.
export async function shortQuotaIsShown(inVisit) {
  const daemon = new Daemon();
  const late = new Date().getUTCHours() >= 22;
  try {
    await daemon.start("--quota-writes-per-day", "40");
    for (let i = 0; i < (late ? 40 : 38); i++) await daemon.write(`short/used-${i}`, "1");
    await daemon.flush();
    for (let i = 0; i < 22; i++) await daemon.write(`short/waits-${i}`, "1");
    await inVisit(daemon, async (visit) => {
      await visit.go(daemon.url);
      await visit.shows(".sentence.warning h1", late
        ? /^short has used up the quota of 40 writes: 22 writes wait until /
        : /^short has 2 of the quota's 40 writes left: 22 writes wait until about /);
      await visit.shows(".quota .note", late ? /^used up; a new window begins at / : /^22 writes wait until about /);
    });
  } finally {
    await daemon.stop();
  }
}

// Upstream's process ends. How soon the page shows that counts from when the daemon knows it. A
// busy machine may be slow once, so there are three tries.
async function outageIsShown({ daemon, visit }) {
  await visit.go(daemon.url);
  await visit.live();
  let shown;
  for (let attempt = 1; attempt <= 3; attempt++) {
    await daemon.upstream.stop();
    await daemon.write(`outage/entry-${attempt}`, "kept");
    await visit.shows(".sentence.outage h1", /^Upstream is down: nothing is lost$/);
    shown = Date.now() - Date.parse((await daemon.status()).upstream.since);
    await visit.shows(".top .state", /^127\.0\.0\.1:\d+ ?down$/);
    await visit.page.locator(flow(`entry-${attempt}`, "waits")).waitFor();
    await visit.page.setViewportSize({ width: 390, height: 844 });
    const { height } = await visit.page.locator(".sentence > div").boundingBox();
    assert.ok(height <= THREE_LINES, `on a phone the banner is ${height} pixels high`);
    await visit.page.setViewportSize({ width: 1280, height: 900 });
    await daemon.upstream.start();
    await daemon.flush();
    await visit.page.locator(".sentence.warning").waitFor({ state: "detached" });
    await visit.shows(".top .state", /^127\.0\.0\.1:\d+ ?up$/);
    if (shown <= OUTAGE_SHOWN) return `shown after ${shown} ms`;
  }
  return assert.fail(`the outage was shown after ${shown} ms`);
}

async function makeDeadLetter(daemon, entry, value) {
  daemon.gate.set("refusing");
  await daemon.write(entry, value);
  await daemon.flush();
  daemon.gate.set("open");
}

async function deadLetterIsRetried({ daemon, visit }) {
  await visit.go(daemon.url, "dead-letters");
  await makeDeadLetter(daemon, "dead/refused", "at last");
  await visit.shows(".letter .why", "refused by the test");
  await visit.shows(".badge", "1");
  await visit.click("Retry", ".letter");
  await visit.shows(".empty-title", "There are no dead letters.");
  await daemon.flush();
  assert.equal(await daemon.readUpstream("dead/refused"), "at last");
}

// APART is further than the daemon's and upstream's clocks may seem to be, in milliseconds.
const APART = 2500;

// makeConflict has two hosts write one entry while neither sees the other. The daemon keeps its own, earlier write in the
// entry's history, as lost.
async function makeConflict(daemon, entry) {
  daemon.gate.set("shut");
  await daemon.write(entry, '{"by":"this host","kept":true}');
  await new Promise((resolve) => setTimeout(resolve, APART));
  await daemon.writeUpstream(entry, '{"by":"another host","kept":true}');
  daemon.gate.set("open");
  await daemon.flush();
}

// Time has decided, and a person may still bring the other value back.
async function conflictIsDecided({ daemon, visit }) {
  await visit.go(daemon.url, "dead-letters");
  await makeConflict(daemon, "conflict/one");
  await visit.shows(".lost .why", /^Time has decided this conflict at .*: the write of this host is the earlier one\.$/);
  await visit.shows(".empty-title", "There are no dead letters."); // a person has nothing to do
  assert.equal(await visit.page.locator(".badge").count(), 0);
  await visit.click("Compare");
  await visit.page.locator(".changes mark").first().waitFor();
  assert.deepEqual((await visit.page.locator(".changes mark").allInnerTexts()).sort(), ["another", "this"]);
  await visit.shows(".version.lost .note", /lost a conflict/);
  await visit.click("Undo to this version", "dialog");
  await visit.shows("dialog [role=status]", /^Done: the entry is as it was/);
  await daemon.flush();
  assert.equal(JSON.parse(await daemon.readUpstream("conflict/one")).by, "this host");
}

async function entryIsEdited({ daemon, visit }) {
  const { page } = visit;
  await daemon.write("edit/entry", "before");
  await daemon.flush();
  await visit.go(daemon.url, "memory");
  await page.getByRole("link", { name: /^edit/ }).click();
  await page.getByRole("link", { name: /^entry/ }).click();
  await visit.shows("pre.text", "before");
  await visit.click("Edit");
  await page.getByRole("textbox", { name: "Value" }).fill("after");
  await visit.click("Save");
  await visit.shows("pre.text", "after");
  await daemon.flush();
  assert.equal(await daemon.readUpstream("edit/entry"), "after");
}

// Somebody writes while a person edits: the page shows it, and overwrites it only once it has.
async function editOverwritesNothingUnseen({ daemon, visit }) {
  const { page } = visit;
  visit.expect(/412 .*\/memory\/edit\//);
  await daemon.write("edit/raced", "seen");
  await visit.go(daemon.url, "memory/edit/raced");
  await visit.click("Edit");
  await page.getByRole("textbox", { name: "Value" }).fill("mine");
  await daemon.write("edit/raced", "theirs");
  await visit.click("Save");
  await visit.shows(".compared", "theirs");
  assert.equal(await daemon.read("edit/raced"), "theirs");
  await visit.click("Replace what is there");
  await visit.shows("pre.text", "mine");
  assert.equal(await daemon.read("edit/raced"), "mine");
}

async function entryIsMadeAndDeleted({ daemon, visit }) {
  const { page } = visit;
  visit.expect(/404 .*\/memory\/edit\/made/);
  await daemon.write("edit/other", "x");
  await visit.go(daemon.url, "memory/edit");
  await visit.click("New entry");
  await page.getByLabel("Key", { exact: true }).fill("made");
  await page.getByLabel("Value", { exact: true }).fill("here");
  await visit.click("Write");
  await visit.shows("pre.text", "here");
  await daemon.flush();
  await visit.click("Delete", ".actions");
  await visit.click("Delete", "dialog");
  await visit.shows(".value .empty-title", "There is no such entry.");
  await daemon.flush();
  assert.equal(await daemon.readUpstream("edit/made"), null);
}

// More shows another hundred namespaces.
async function namespacesAreMany({ daemon, visit }) {
  for (let i = 0; i < 150; i++) await daemon.write(`many-${String(100 + i)}/key`, "1");
  await visit.go(daemon.url, "memory");
  await visit.page.getByLabel("Find a namespace").fill("MANY-");
  await visit.page.locator(".namespaces .rows li").nth(99).filter({ hasText: "many-199" }).waitFor(); // the list of all has others there
  await visit.click("More", ".namespaces");
  await visit.page.locator(".namespaces .rows li").nth(149).filter({ hasText: "many-249" }).waitFor();
}

// The newest keys come first. An entry far down the list is scrolled to and marked when a link leads to it.
async function entriesAreFound({ daemon, visit }) {
  const { page } = visit;
  for (let i = 0; i < 250; i++) await daemon.write(`far/key-${String(100 + i)}`, "1");
  await visit.go(daemon.url, "memory/far");
  await page.locator(".entries .rows li").first().filter({ hasText: "key-349" }).waitFor();
  assert.equal(await page.locator(".entries .rows li").count(), 100);
  await visit.click("More", ".entries");
  await page.locator(".entries .rows li").nth(199).waitFor();
  await visit.go(daemon.url, "memory/far/key-101");
  const marked = page.locator(".entries .rows [aria-current]");
  await marked.filter({ hasText: "key-101" }).waitFor();
  await page.waitForFunction(() => {
    const [row, list] = [document.querySelector(".entries [aria-current]"), document.querySelector(".entries .rows")].map((e) => e.getBoundingClientRect());
    return row.top >= list.top && row.bottom <= list.bottom + 1;
  });
}

async function longTextIsClamped({ daemon, visit }) {
  await daemon.write("long/text", "word ".repeat(15_000));
  await visit.go(daemon.url, "memory/long/text");
  await visit.shows("pre.text", "word");
  assert.ok((await visit.text("pre.text")).length < 5000);
  await visit.click("Show all 75,000 characters");
  await visit.page.waitForFunction(() => document.querySelector("pre.text").textContent.length === 75_000);
}

const HOSTILE = `</pre><script>window.hit = 1</script><img src="x" onerror="window.hit = 1"><svg onload="window.hit = 1">`;

async function valuesAreInert({ daemon, visit }) {
  const { page } = visit;
  for (const [key, value] of [
    ["text", HOSTILE], ["json", JSON.stringify({ [HOSTILE]: HOSTILE })],
    ["chat", JSON.stringify([{ type: "human", data: { content: HOSTILE } }, { type: "ai", data: { content: HOSTILE, name: HOSTILE } }])],
  ]) {
    for (const version of [`${value} `, value]) await daemon.write(`hostile/${key}`, version, HOSTILE.slice(0, 64));
    await visit.go(daemon.url, `memory/hostile/${key}`);
    await visit.shows(".value-view", "<script>window.hit = 1</script>");
    await visit.click("History");
    await visit.shows(".changes", "<script>window.hit = 1</script>");
    await visit.shows(".version", "by </pre><script>window.hit = 1</script>");
    assert.equal(await page.locator("#app script, #app img, #app svg").count(), 0);
    assert.equal(await page.evaluate(() => window.hit), undefined);
  }
}

// attack is what a page of another origin tries. It reports what it could read.
async function attack(target) {
  const learned = [];
  const attempt = async (what, run) => {
    try {
      const got = await run();
      if (got) learned.push(`${what}: ${got}`);
    } catch {
      // The browser has refused, as it should.
    }
  };
  const read = (answer) => answer.text().then((text) => (answer.type === "opaque" ? "" : `${answer.status} ${text}`));
  const body = JSON.stringify({ value: "forged" });
  for (const path of ["/_botwired/", "/_botwired/status", "/_botwired/assets/app.js", "/memory/secret/entry"]) {
    await attempt(`fetch ${path}`, async () => read(await fetch(target + path)));
    await attempt(`fetch ${path} without CORS`, async () => read(await fetch(target + path, { mode: "no-cors", credentials: "include" })));
  }
  await attempt("PUT", async () => read(await fetch(`${target}/memory/secret/entry`, { method: "PUT", body })));
  await attempt("POST", async () => read(await fetch(`${target}/_botwired/flush`, { method: "POST", mode: "no-cors" })));
  const loads = (element, attributes) => new Promise((done) => {
    const one = Object.assign(document.createElement(element), attributes, { onload: () => done("it loads"), onerror: () => done("") });
    document.body.append(one);
  });
  await attempt("script", () => loads("script", { src: `${target}/_botwired/assets/vendor/uPlot.js` }));
  await attempt("style sheet", () => loads("link", { rel: "stylesheet", href: `${target}/_botwired/assets/style.css` }));
  await attempt("image", () => loads("img", { src: `${target}/_botwired/assets/icon.svg` }));
  await attempt("frame", async () => {
    await loads("iframe", { src: `${target}/_botwired/` });
    const frame = document.querySelector("iframe");
    return frame.contentDocument?.body?.textContent || (frame.contentWindow.length > 0 ? "it has frames" : "");
  });
  await attempt("events", () => new Promise((done) => {
    const source = new EventSource(`${target}/_botwired/events`);
    source.onopen = () => done("it opens");
    source.onerror = () => done("");
  }));
  return learned;
}

async function otherOriginLearnsNothing({ daemon, browser }) {
  await daemon.write("secret/entry", "hidden");
  const server = http.createServer((_, answer) => answer.writeHead(200, { "Content-Type": "text/html" }).end("<!doctype html><title>evil</title>")).listen(0, "127.0.0.1");
  await once(server, "listening");
  const context = await browser.newContext();
  try {
    for (const host of ["127.0.0.1", "localhost"]) {
      const page = await context.newPage();
      await page.goto(`http://${host}:${server.address().port}/`);
      assert.deepEqual(await page.evaluate(attack, daemon.url), []);
      await followsLink(context, page, daemon.url);
    }
    assert.equal(await daemon.read("secret/entry"), "hidden");
  } finally {
    await context.close();
    server.close();
  }
}

// A link on another site opens the page for the person, in a window that the other site cannot reach.
async function followsLink(context, page, target) {
  const opening = context.waitForEvent("page");
  await page.evaluate((url) => { window.opened = window.open(url); }, `${target}/_botwired/`);
  const opened = await opening;
  await opened.locator(".sentence h1").waitFor();
  assert.equal(await opened.evaluate(() => window.opener), null);
  assert.equal(await page.evaluate(() => window.opened.closed), true);
  await opened.close();
}

// focusOn presses Tab until an element has the focus, as a person without a mouse does.
async function focusOn(page, selector) {
  for (let presses = 0; presses < 80; presses++) {
    if (await page.evaluate((s) => document.activeElement?.matches(s), selector)) return;
    await page.keyboard.press("Tab");
  }
  assert.fail(`80 times Tab do not lead to ${selector}`);
}

async function keyboardIsEnough({ daemon, visit }) {
  const { page } = visit;
  const { keyboard } = page;
  await daemon.write("keyboard/entry", "before");
  await daemon.flush();
  await visit.go(daemon.url);
  await focusOn(page, 'nav a[href="#/memory"]');
  await keyboard.press("Enter");
  await page.locator("input[type=search]").first().waitFor();
  await keyboard.press("/");
  await keyboard.type("keyboard");
  await visit.gone(".namespaces .rows a", "live");
  await focusOn(page, '.namespaces .rows a[href="#/memory/keyboard"]');
  await keyboard.press("Enter");
  await page.locator(".entries .rows a").waitFor();
  await focusOn(page, ".entries .rows a");
  await keyboard.press("Enter");
  await visit.shows("pre.text", "before");
  await focusOn(page, ".value .actions button");
  await keyboard.press("Enter");
  await page.locator("dialog[open]").waitFor();
  await focusOn(page, "dialog textarea");
  await keyboard.press("Control+A");
  await keyboard.type("after");
  await focusOn(page, "dialog button[type=submit]");
  await keyboard.press("Enter");
  await visit.shows("pre.text", "after");
  assert.equal(await page.evaluate(() => document.activeElement.textContent), "Edit"); // the focus is where it was
  await keyboard.press("Enter");
  await page.locator("dialog[open]").waitFor();
  await keyboard.press("Escape");
  await page.locator("dialog[open]").waitFor({ state: "detached" });
}

async function motionStops({ daemon, visit }) {
  await daemon.write("live/still", "1");
  for (const [reducedMotion, name] of [["no-preference", "come"], ["reduce", "none"]]) {
    await visit.page.emulateMedia({ reducedMotion });
    await visit.go(daemon.url);
    await daemon.write("live/moving", reducedMotion);
    await visit.page.locator(".write").first().waitFor();
    assert.equal(await visit.page.locator(".write").first().evaluate((e) => getComputedStyle(e).animationName), name);
  }
}

export const scenarios = [
  ["a browser's GET / is led to the page", leads],
  ["a pending write turns settled live", settlesLive],
  ["a write that upstream forbids waits", forbiddenWaits],
  ["a write that upstream throttles waits", throttledWaits],
  ["what upstream refuses is not green, and is sent by a click", refusalIsShown],
  ["the corner agrees with the sentence in every state", cornerAgrees],
  ["the sentence's commands are buttons, or can be copied", commandsAreOffered],
  ["the last writes are there when the page is loaded", lastWritesAreShown],
  ["an outage is shown within 2 s", outageIsShown],
  ["a dead letter is retried by a click", deadLetterIsRetried],
  ["a conflict is decided by a click", conflictIsDecided],
  ["all dead letters of a namespace are retried, and discarded", allOfANamespace],
  ["an entry is edited", entryIsEdited],
  ["an edit overwrites nothing unseen", editOverwritesNothingUnseen],
  ["an entry is made, and deleted", entryIsMadeAndDeleted],
  ["an entry's versions are compared, and one is brought back in an outage", versionIsBroughtBack],
  ["an undo overwrites nothing unseen", undoOverwritesNothingUnseen],
  ["a deleted entry is brought back", deletedIsBroughtBack],
  ["an entry without a history has a reason", historyHasAReason],
  ["an entry is copied as curl, Python and MCP", copiesAs],
  ["the page's keys are the Python package's", keysAreThePythonPackages],
  ["a key of the Python package is shown as that has it", keysAreDecoded],
  ["the adapters' chats are conversations", chatsAreConversations],
  ["names are whole on a phone", namesAreWholeOnAPhone],
  ["where no quota is used there is no card of it", noQuotaNoCard],
  ["a long list of namespaces has more pages", namespacesAreMany],
  ["a linked entry is scrolled to, and the newest keys come first", entriesAreFound],
  ["a long text is clamped", longTextIsClamped],
  ["a value that holds <script> is inert", valuesAreInert],
  ["a page of another origin learns nothing", otherOriginLearnsNothing],
  ["the keyboard is enough", keyboardIsEnough],
  ["nothing moves for who wants that", motionStops],
];
