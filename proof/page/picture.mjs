// Draws docs/dashboard.png: the Overview of a daemon whose agents have been at work for some minutes, with an outage.

import { join } from "node:path";
import { launch, Visit } from "./browser.mjs";
import { Daemon } from "./servers.mjs";

const FILE = join(import.meta.dirname, "../../docs/dashboard.png");
const AGENTS = ["research-agent", "support-bot", "trip-planner"];
const SECONDS = 150;
const OUTAGE = [60, 90]; // in seconds since the start
const LOOKS = 15; // for how many seconds the page is open

const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

const daemon = new Daemon();
daemon.distance = "50ms";
const browser = await launch();
try {
  await daemon.start("--upstream-late-window", "30s");
  const began = Date.now();
  const seconds = () => (Date.now() - began) / 1000;
  let visit;
  for (let n = 0; seconds() < SECONDS; n++) {
    daemon.gate.set(seconds() > OUTAGE[0] && seconds() < OUTAGE[1] ? "shut" : "open");
    if (!visit && seconds() > SECONDS - LOOKS) {
      visit = await Visit.open(browser, { viewport: { width: 1120, height: 900 }, colorScheme: "light" });
      await visit.go(daemon.url);
      await visit.live();
    }
    const agent = AGENTS[n % AGENTS.length];
    const history = `${agent}/session-${n % 4}`;
    for (let read = 0; read < 4; read++) await daemon.read(history).catch(() => null); // 503: not known yet, in the outage
    await daemon.write(history, `turn ${n} of the conversation`);
    await pause(300);
  }
  await visit.page.locator(".write").first().waitFor();
  await visit.page.screenshot({ path: FILE });
  await visit.close();
} finally {
  await daemon.stop();
  await browser.close();
}
