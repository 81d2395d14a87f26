// Drives the dashboard of a real daemon in headless Chromium, and prints one line for each scenario
// and a summary. With arguments, it runs only the scenarios whose names contain one of them.

import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { launch, Visit } from "./browser.mjs";
import { crowdIsServed } from "./crowd.mjs";
import { scenarios, shortQuotaIsShown } from "./scenarios.mjs";
import { Daemon } from "./servers.mjs";
import { closedIsShown, lossIsShown } from "./states.mjs";
import { namespaceIsBroughtBack } from "./undo.mjs";
import { FRESH, furnish, look, VIEWS } from "./views.mjs";

const TOKEN = "a/token+of:the@page";

// SCREENS are the sizes and schemes. Each size and each scheme is searched for barriers once.
const SCREENS = [
  { width: 1280, height: 900, colorScheme: "light", searching: true },
  { width: 1280, height: 900, colorScheme: "dark", searching: false },
  { width: 390, height: 844, colorScheme: "light", searching: false },
  { width: 390, height: 844, colorScheme: "dark", searching: true },
];

const words = process.argv.slice(2);
const wanted = (name) => words.length === 0 || words.some((word) => name.includes(word));
const results = { passed: 0, failed: 0 };

async function check(name, run) {
  if (!wanted(name)) return;
  const began = Date.now();
  try {
    const note = await run();
    results.passed++;
    console.log(`ok ${name} (${Date.now() - began} ms${note ? `; ${note}` : ""})`);
  } catch (error) {
    results.failed++;
    console.log(`not ok ${name}\n${String(error.stack).replace(/^/gm, "    ")}`);
  }
}

// inVisit runs a scenario in a visit of its own, in which nothing may be complained of, and nobody
// but the daemon asked.
async function inVisit(browser, base, options, scenario) {
  const visit = await Visit.open(browser, options);
  try {
    const note = await scenario(visit);
    assert.deepEqual(visit.complaints, [], "the console or the policy complains");
    const strangers = visit.requests.filter((url) => !url.startsWith(base) && !url.startsWith("blob:"));
    assert.deepEqual(strangers, [], "the page asks somebody else");
    return note;
  } catch (error) {
    error.stack += `\nThe page shows:\n${await visit.text("body").catch(String)}`;
    await visit.page.screenshot({ path: join(import.meta.dirname, "../../bin/page-failed.png"), fullPage: true }).catch(() => {});
    throw error;
  } finally {
    await visit.close();
  }
}

// tokenIsCarried: a browser that has given the password once sends it with all that the page asks for,
// also if the password was in the address.
async function tokenIsCarried(browser) {
  const daemon = new Daemon();
  const file = join(daemon.folder, "token");
  writeFileSync(file, `${TOKEN}\n`, { mode: 0o600 });
  try {
    await daemon.start("--auth-token-file", file);
    await inVisit(browser, daemon.url, {}, async (visit) => {
      visit.expect(/401/);
      const answer = await visit.page.goto(`${daemon.url}/_botwired/`).catch((error) => {
        if (!error.message.includes("ERR_INVALID_AUTH_CREDENTIALS")) throw error;
        return null; // Chromium asks for the password, where its headless shell shows the answer
      });
      if (answer) assert.equal(answer.status(), 401);
    });
    const withPassword = daemon.url.replace("//", `//x:${encodeURIComponent(TOKEN)}@`);
    for (const [base, options] of [[daemon.url, { httpCredentials: { username: "x", password: TOKEN } }], [withPassword, {}]]) {
      await inVisit(browser, daemon.url, options, async (visit) => {
        await visit.go(base);
        await visit.live();
        visit.requests = visit.requests.map((url) => url.replace(/\/\/[^/]*@/, "//"));
      });
    }
  } finally {
    await daemon.stop();
  }
}

// lookTwice looks at every view once at each size, and once in each scheme.
async function lookTwice(browser, daemon, views) {
  for (const screen of SCREENS.filter((s) => s.searching)) await look(browser, daemon, views, screen);
}

async function freshIsShown(browser) {
  const daemon = new Daemon();
  try {
    await daemon.start();
    await lookTwice(browser, daemon, FRESH);
  } finally {
    await daemon.stop();
  }
}

async function main() {
  const browser = await launch();
  const daemon = new Daemon();
  try {
    await daemon.start();
    for (const [name, scenario] of scenarios) {
      await check(name, () => inVisit(browser, daemon.url, {}, (visit) => scenario({ daemon, visit, browser })));
      daemon.gate.set("open");
    }
    await check("a token is carried along", () => tokenIsCarried(browser));
    await check("a namespace is brought back as it was at a time, in an outage", () => namespaceIsBroughtBack((daemon, scenario) => inVisit(browser, daemon.url, {}, scenario)));
    const inTrouble = (daemon, scenario) => inVisit(browser, daemon.url, {}, scenario);
    await check("what upstream has lost is not green, and is given back by a click", () => lossIsShown(inTrouble, async (one) => {
      for (const screen of SCREENS) await look(browser, one, { loss: ["", ".write.lost"], "loss-entry": ["memory/planner/item-3", ".details .trouble"] }, screen);
    }));
    await check("what does not open is not green", () => closedIsShown(inTrouble, (one) => lookTwice(browser, one, { closed: ["memory/private-agent/letters", ".details"] })));
    await check("a short quota is shown", () => shortQuotaIsShown(async (daemon, scenario) => {
      await inVisit(browser, daemon.url, {}, scenario);
      await lookTwice(browser, daemon, { "short-quota": ["", ".quota"] });
    }));
    await check("a crowd of 10,000 namespaces is served", () => crowdIsServed((crowd, scenario) => inVisit(browser, crowd.url, {}, scenario)));
    await check("views of a fresh daemon", () => freshIsShown(browser));
    await furnish(daemon);
    for (const screen of SCREENS) {
      await check(`views at ${screen.width} pixels, ${screen.colorScheme}${screen.searching ? ": no barriers" : ""}`, () => look(browser, daemon, VIEWS, screen));
    }
  } finally {
    await daemon.stop();
    await browser.close();
  }
}

try {
  await main();
} catch (error) {
  results.failed++;
  console.log(`not ok: ${error.stack}`);
}
console.log(`\npage: ${results.passed} passed, ${results.failed} failed; what it looks like is in bin/page`);
process.exitCode = results.failed > 0 || results.passed === 0 ? 1 : 0;
