// The commands of the sentence on top: a button for what the page can do itself, and any other one to copy.

import { html, useState } from "./vendor/htm-preact.js";
import { post } from "./api.js";
import { Command, Confirm, Problem, useTask } from "./ui.js";

// SOON is how long the page waits for what goes on by itself (504 then).
const SOON = "1s";

async function begin(path, parameters) {
  try {
    await post(path, parameters);
  } catch (refusal) {
    if (refusal.status !== 504) throw refusal;
  }
}

const spaceOf = (which) => (which === "--all" ? "*" : which);

// DEEDS are by the command's words: what the button says, what it does, and what it asks before.
const DEEDS = {
  restore: (which) => ({
    title: which === "--all" ? "Restore all" : `Restore ${which}`,
    run: () => (which === "--all" ? post("restore", { namespace: "*" }) : begin("restore", { namespace: which, timeout: SOON })),
    question: "Upstream gets back what it has lost, as far as this host has a copy. Restored entries are pending until upstream has them. First make sure that upstream.url is right.",
  }),
  forget: (which) => ({
    title: which === "--all" ? "Forget all" : `Forget ${which}`,
    run: () => post("forget", { namespace: spaceOf(which) }),
    question: "What upstream no longer has is given up here, too. Agents then find nothing. It stays in the history of each entry.",
  }),
  "flush --now": () => ({ title: "Send now", run: () => begin("flush", { now: true, timeout: SOON }) }),
  flush: () => ({ title: "Send", run: () => begin("flush", { timeout: SOON }) }),
  "dead-letters retry --all": () => ({ title: "Retry all dead letters", run: () => post("dead-letters/retry") }),
};

function deedOf(command) {
  const words = command.split(" ").slice(1);
  const [verb, which] = words;
  return DEEDS[words.join(" ")]?.() ?? (words.length === 2 && (verb === "restore" || verb === "forget") ? DEEDS[verb](which) : null);
}

function Deed({ deed: { title, run, question }, then }) {
  const [asking, ask] = useState(false);
  const [busy, error, go] = useTask(run, then);
  return html`
    <button type="button" class="deed" disabled=${busy} onClick=${() => (question ? ask(true) : go())}>${busy ? "One moment…" : `${title}${question ? "…" : ""}`}</button>
    <${Problem} error=${error} />
    ${asking && html`<${Confirm} title=${`${title}?`} action=${title} close=${() => ask(false)} run=${async () => { await run(); then(); }}><p>${question}</p><//>`}`;
}

// WithCommands is a remedy with its commands as buttons, or to copy.
export function WithCommands({ text, commands = [], then }) {
  const parts = [];
  let end = 0;
  for (const command of commands) {
    const at = text.indexOf(command, end);
    if (at < 0) continue;
    const deed = deedOf(command);
    parts.push(text.slice(end, at), deed ? html`<${Deed} key=${command} deed=${deed} then=${then} />` : html`<${Command} key=${command} text=${command} />`);
    end = at + command.length;
  }
  return html`${parts}${text.slice(end)}`;
}
