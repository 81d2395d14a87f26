// One entry: its value as a conversation, as JSON or as it is, and what can be done with it.

import { html, useEffect, useMemo, useState } from "./vendor/htm-preact.js";
import { deleteEntry, readEntry, unreachable } from "./api.js";
import { readChat } from "./chats.js";
import { Conversation, messageOf, messagesOf } from "./conversation.js";
import { CopyAs } from "./copyas.js";
import { Editor } from "./editor.js";
import { ago, count, duration, moment } from "./format.js";
import { History } from "./history.js";
import { Json, parsed } from "./json.js";
import { shownKey } from "./keys.js";
import { Command, Confirm, CopyButton, Empty, entryName, Problem, Segments, useChanges, useLoaded } from "./ui.js";

// sourceOf says in words where an answer came from (Cache-Status, RFC 9211).
function sourceOf({ source, age }) {
  const detail = /detail=([\w-]+)/.exec(source)?.[1];
  if (detail === "pending") return "a pending write, the newest state there is";
  if (source.includes("hit")) return `the copy here${age == null ? "" : `, confirmed ${age === 0 ? "just now" : `${duration(age)} ago`}`}`;
  return "upstream, just now";
}

function Details({ entry, of }) {
  return html`
    <dl class="details">
      ${of?.trouble && html`<div class="trouble ${of.trouble.tone}"><dt>Namespace</dt><dd><i class=${`dot ${of.trouble.tone}`} aria-hidden="true"></i>${of.trouble.word}</dd></div>`}
      <div><dt>Updated</dt><dd title=${moment(entry.updated_at)}>${ago(entry.updated_at)}</dd></div>
      <div><dt>Created</dt><dd title=${moment(entry.created_at)}>${ago(entry.created_at)}</dd></div>
      <div><dt>Size</dt><dd>${count([...entry.value].length, "character")}</dd></div>
      <div><dt>Answered from</dt><dd>${sourceOf(entry)}</dd></div>
      ${of?.sealed && html`<div><dt>Sealed</dt><dd>upstream cannot read it</dd></div>`}
      ${shownKey(entry.key) !== entry.key && html`<div><dt>Key in BotWire</dt><dd class="break"><code>${entry.key}</code></dd></div>`}
    </dl>`;
}

// CLAMPED is how much of a long text is shown at first, in characters.
const CLAMPED = 4000;

function Text({ value }) {
  const [all, showAll] = useState(false);
  const long = value.length > CLAMPED + 1000;
  return html`
    <pre class="text" tabindex="0">${value === "" ? html`<em>An empty text.</em>` : long && !all ? `${value.slice(0, CLAMPED)}…` : value}</pre>
    ${long && html`<button type="button" aria-expanded=${all} onClick=${() => showAll(!all)}>${all ? "Show less" : `Show all ${count(value.length, "character")}`}</button>`}`;
}

// SEGMENTS is how many of a chat's older segments are read without a click.
const SEGMENTS = 20;

// useChat is a value as a chat: all of it, if botwired's adapters have written it in several entries.
function useChat(entry) {
  const [most, setMost] = useState(SEGMENTS);
  const { namespace, key, tag, value } = entry;
  const { value: read, error } = useLoaded((signal) => readChat(entry, most, signal), [namespace, key, tag, value.length, most]);
  const [kept, keep] = useState(null); // while the next one is read
  useEffect(() => {
    if (read !== undefined) keep(read);
  }, [read]);
  return { chat: read === undefined ? kept : read, error, more: () => setMost((n) => 4 * n) };
}

// Value shows a value in the most readable of the ways that it allows.
function Value({ entry }) {
  const { value } = entry;
  const { chat, error, more } = useChat(entry);
  const document = useMemo(() => parsed(value), [value]);
  const messages = useMemo(() => (chat ? chat.items.map(messageOf) : messagesOf(document)), [chat, document]);
  const ways = [messages && ["conversation", "Conversation"], document !== undefined && ["json", "JSON"], ["text", "Text"]].filter(Boolean);
  const [wanted, want] = useState(null);
  const way = ways.some(([name]) => name === wanted) ? wanted : ways[0][0];
  return html`
    <div class="value-view">
      ${ways.length > 1 && html`<${Segments} label="Show the value as" options=${ways} chosen=${way} choose=${want} />`}
      <${Problem} error=${error} />
      ${way === "conversation" && chat?.cut && (chat.lost
        ? html`<p class="note">What was said before cannot be read: ${chat.lost}.</p>`
        : html`<button type="button" onClick=${more}>Show what was said before</button>`)}
      ${way === "conversation" && html`<${Conversation} messages=${messages} />`}
      ${way === "json" && html`<${Json} document=${document} />`}
      ${way === "text" && html`<${Text} value=${value} />`}
    </div>`;
}

function Shown({ entry, of, again }) {
  const [doing, act] = useState(null);
  const stop = () => act(null);
  const done = () => {
    stop();
    again();
  };
  return html`
    ${doing === "edit" && html`<${Editor} entry=${entry} close=${stop} saved=${done} />`}
    ${doing === "delete" && html`
      <${Confirm} title="Delete this entry?" action="Delete" close=${done} run=${() => deleteEntry(entry.namespace, entry.key, entry)}>
        <p><b class="break">${entryName(entry)}</b> is deleted here at once, and upstream as soon as that takes it. Every agent that reads it then finds nothing.</p>
        <p class="note">If somebody has written it since you saw it, nothing is deleted.</p>
      <//>`}
    ${doing === "copy" && html`<${CopyAs} entry=${entry} close=${stop} />`}
    <div class="actions">
      <button type="button" onClick=${() => act("edit")}>Edit</button>
      <${CopyButton} text=${entry.value} label="Copy value" />
      <button type="button" onClick=${() => act("copy")}>Copy as…</button>
      <button type="button" class="danger quiet" onClick=${() => act("delete")}>Delete</button>
    </div>
    <${Details} entry=${entry} of=${of} />
    <${Value} entry=${entry} />`;
}

function Unreachable({ namespace, name }) {
  const command = `botwired get ${namespace} ${name}`;
  return html`
    <${Empty} title="A browser cannot ask for this key: it takes the name for a folder.">
      <p>In a terminal, this prints the value:</p>
      <${Command} text=${command} />
    <//>`;
}

export function Entry({ daemon, namespace, name, of }) {
  const { value: entry, error, again } = useLoaded((signal) => (unreachable(name) ? Promise.resolve(null) : readEntry(namespace, name, signal)), [namespace, name]);
  const [looking, look] = useState(false); // at its history
  useChanges(daemon, namespace, name, again);
  return html`
    <section class="panel pane value" aria-label=${`The entry ${shownKey(name)}`}>
      <header>
        <a class="back" href=${`#/memory/${namespace}`} aria-label=${`Back to the entries of ${namespace}`}>‹</a>
        <h2><span class="space">${namespace}/</span>${shownKey(name)}</h2>
        <button type="button" onClick=${() => look(true)}>History</button>
      </header>
      <${Problem} error=${error} />
      ${entry && html`<${Shown} entry=${entry} of=${of} again=${again} />`}
      ${entry === null && (unreachable(name) ? html`<${Unreachable} namespace=${namespace} name=${name} />` : html`<${Empty} title="There is no such entry." />`)}
      ${looking && html`<${History} daemon=${daemon} namespace=${namespace} name=${name} close=${() => look(false)} />`}
    </section>`;
}
