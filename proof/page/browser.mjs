// A browser, and a page whose every complaint and every request is noted.

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { chromium } from "playwright-core";

const BROWSERS = ["/usr/bin/chromium-headless-shell", "/usr/bin/chromium"];

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

// WAIT bounds how long something may take to show up; a busy machine is slow.
export const WAIT = 30_000;

export async function launch() {
  let failure;
  for (const executablePath of [process.env.CHROMIUM, ...BROWSERS].filter(Boolean)) {
    try {
      return await chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-background-networking"] });
    } catch (error) {
      failure = error;
    }
  }
  throw failure;
}

// Visit is a page in a browser's context of its own. A complaint is what the console calls an error
// or a warning, an error that nobody caught, or a breach of the policy.
export class Visit {
  complaints = [];
  requests = [];
  #expected = [];

  static async open(browser, options = {}) {
    const visit = new Visit();
    visit.context = await browser.newContext({ viewport: { width: 1280, height: 900 }, reducedMotion: "reduce", ...options });
    visit.context.setDefaultTimeout(WAIT);
    visit.page = await visit.context.newPage();
    visit.page.on("console", (m) => ["error", "warning"].includes(m.type()) && visit.#complain(`${m.text()} ${m.location().url}`));
    visit.page.on("pageerror", (error) => visit.#complain(String(error.stack)));
    visit.page.on("request", (request) => visit.requests.push(request.url()));
    await visit.page.addInitScript(() => addEventListener("securitypolicyviolation", (event) => console.error("policy", event.violatedDirective, event.blockedURI)));
    return visit;
  }

  // expect has answers of a kind be no complaint: a browser reports each that is no success.
  expect(pattern) {
    this.#expected.push(pattern);
  }

  #complain(text) {
    if (!this.#expected.some((pattern) => pattern.test(text))) this.complaints.push(text);
  }

  async go(base, place = "") {
    await this.page.goto(`${base}/_botwired/#/${place}`);
    await this.page.locator(".sentence h1").waitFor();
  }

  // live waits until events arrive: from then on the page sees every write.
  live = () => this.page.locator(".top.live").waitFor();
  text = (selector) => this.page.locator(selector).first().innerText();
  click = (name, scope = "body") => this.page.locator(scope).getByRole("button", { name, exact: true }).click();
  shows = (selector, text) => this.page.locator(selector).filter({ hasText: text }).first().waitFor();
  gone = (selector, text) => this.page.locator(selector).filter({ hasText: text }).first().waitFor({ state: "detached" });

  // barriers are what axe finds that keeps somebody out: what it calls serious or critical.
  async barriers() {
    await this.page.evaluate(axe);
    const { violations } = await this.page.evaluate(() => axe.run(document, { resultTypes: ["violations"] }));
    return violations.filter((v) => ["serious", "critical"].includes(v.impact))
      .map((v) => `${v.id}: ${v.nodes.map((n) => `${n.target} ${n.failureSummary}`).slice(0, 3).join("; ")}`);
  }

  close = () => this.context.close();
}
