// The way of each write, live: acknowledged, sent, settled.

import { html, useState } from "./vendor/htm-preact.js";
import { ago, bytes, duration } from "./format.js";
import { stateOf, troubleOf } from "./states.js";
import { CopyButton, Empty, EntryName } from "./ui.js";

const SHOWN = 12;

// AGES_AFTER is when the age of a settled write says more than how long it took, in milliseconds.
const AGES_AFTER = 60_000;

const STATES = {
  pending: "acknowledged",
  sent: "sent",
  waits: "waits",
  refused: "refused by upstream, waits",
  settled: "settled",
  superseded: "superseded",
  dead: "dead letter",
  dropped: "dropped",
};

// account says where a write is and how long that took.
function account(write, now) {
  const took = write.began != null ? duration(((write.ended ?? now) - write.began) / 1000) : "";
  switch (write.state) {
    case "settled":
    case "doubted":
    case "lost":
      return now - write.ended > AGES_AFTER ? ago(write.ended / 1000, now) : took && `after ${took}`;
    case "superseded":
      return write.by ? `by write ${write.by}` : "by another host";
    case "dead":
      return "waits for a decision";
    case "dropped":
      return "by a person";
  }
  return took && `for ${took}`;
}

// held returns the write as it is in a namespace whose writes wait or are refused by upstream, or with which something
// else is wrong.
function held({ namespaces, upstream }, write) {
  const namespace = namespaces.find((n) => n.namespace === write.namespace);
  if (write.state === "settled") {
    const { text, tone } = stateOf(write, troubleOf(namespace, upstream.watch));
    return tone === "settled" ? write : { ...write, state: tone === "bad" ? "lost" : "doubted", said: text };
  }
  const isWaiting = write.state === "pending" || write.state === "sent";
  const { paused, waits } = (isWaiting && namespace) || {};
  return paused ? { ...write, state: "refused", reason: paused } : waits ? { ...write, state: "waits" } : write;
}

function Write({ write, now }) {
  const entry = `#/memory/${write.namespace}/${write.key}`;
  const trouble = write.state !== "settled" && write.reason;
  return html`
    <li class=${`write ${write.state}`} data-seq=${write.seq}>
      <span class="way" aria-hidden="true"><i></i><i></i><i></i></span>
      <a class="entry" href=${write.state === "dead" || write.state === "dropped" ? "#/dead-letters" : entry}>
        <${EntryName} of=${write} />
      </a>
      <span class="size">${write.op === "delete" ? "delete" : write.bytes == null ? "" : bytes(write.bytes)}${write.author && ` by ${write.author}`}</span>
      <span class="state"><b>${write.said ?? STATES[write.state]}</b> ${account(write, now)}</span>
      ${trouble && html`<span class="reason">${write.reason}</span>`}
    </li>`;
}

const TRY = `curl -X PUT ${location.origin}/memory/demo/greeting -H 'Content-Type: application/json' -d '{"value":"hello"}'`;

const Nothing = () => html`
  <${Empty} title="No write is known here yet.">
    <p>Writes show up here as agents make them. To see one:</p>
    <div class="command"><code>${TRY}</code><${CopyButton} text=${TRY} /></div>
  <//>`;

export function Flow({ daemon }) {
  const [kept, keep] = useState(null); // the writes while somebody reads them
  const writes = kept ?? daemon.writes.list().slice(0, SHOWN).map((w) => held(daemon.status, w));
  const now = Date.now();
  return html`
    <section class="panel flow" aria-labelledby="flow">
      <header>
        <h2 id="flow">Writes, as they come</h2>
        <span class="legend" aria-hidden="true"><i class="dot pending"></i>acknowledged <i class="dot sent"></i>sent <i class="dot settled"></i>settled</span>
        <button type="button" class="quiet" aria-pressed=${kept != null} onClick=${() => keep(kept ? null : writes)}>${kept ? "Go on" : "Hold"}</button>
      </header>
      ${writes.length === 0 ? html`<${Nothing} />` : html`<ol class="writes">${writes.map((w) => html`<${Write} key=${w.seq} write=${w} now=${now} />`)}</ol>`}
    </section>`;
}
