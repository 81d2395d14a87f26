// Chat histories as conversations: the messages of LangChain (type and data, or type and content), of the chat APIs (role
// and content), of OpenAI's Responses (calls and results of their own), of LlamaIndex (blocks) and of Pydantic AI
// (parts), in a list or under "messages".

import { html, useMemo } from "./vendor/htm-preact.js";

const SPEAKERS = {
  __proto__: null,
  human: "user", user: "user", ai: "assistant", assistant: "assistant", model: "assistant", chatbot: "assistant", AIMessageChunk: "assistant",
  HumanMessageChunk: "user", system: "system", developer: "system", tool: "tool", function: "tool",
};

// textOf is what a message says. Its content may be a text, or parts of which some are texts.
function textOf(content) {
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return content == null ? "" : JSON.stringify(content, null, 2);
  return content.map((part) => (typeof part === "string" ? part : part?.text ?? part?.refusal ?? JSON.stringify(part, null, 2))).join("\n");
}

const nameOfCall = (call) => call?.name ?? call?.function?.name ?? call?.tool_name ?? "tool";

// RESPONSES are the items of OpenAI's Responses that are no message.
const RESPONSES = {
  function_call: (item) => ({ speaker: "assistant", name: "", text: "", calls: [nameOfCall(item)] }),
  function_call_output: (item) => ({ speaker: "tool", name: "", text: textOf(item.output), calls: [] }),
  reasoning: (item) => ({ speaker: "assistant", name: "reasoning", text: textOf(item.summary), calls: [] }),
};

// PARTS are the parts of a message of Pydantic AI's, by their kind.
const PARTS = { __proto__: null, "user-prompt": "user", "system-prompt": "system", text: "assistant", thinking: "assistant", "tool-return": "tool", "retry-prompt": "tool" };

const isObject = (value) => value !== null && typeof value === "object";

function ofParts({ parts: all }) {
  const parts = all.filter(isObject);
  const speakers = parts.map((part) => PARTS[part.part_kind]);
  const texts = parts.filter((part) => PARTS[part.part_kind] && part.part_kind !== "thinking").map((part) => textOf(part.content));
  const calls = parts.filter((part) => part.part_kind === "tool-call").map(nameOfCall);
  return { speaker: speakers.find((s) => s === "user") ?? speakers.find(Boolean) ?? "assistant", name: "", text: texts.filter(Boolean).join("\n\n"), calls };
}

function knownMessageOf(item) {
  if (!isObject(item)) return null;
  if (Array.isArray(item.parts) && (item.kind === "request" || item.kind === "response")) return ofParts(item);
  if (Object.hasOwn(RESPONSES, item.type) && !item.data) return RESPONSES[item.type](item);
  const body = item.data ?? item;
  const speaker = SPEAKERS[item.role ?? item.type];
  if (!speaker || !isObject(body)) return null;
  const content = body.content ?? body.blocks;
  if (content === undefined) return null;
  const calls = body.tool_calls ?? body.additional_kwargs?.tool_calls ?? [];
  return { speaker, name: typeof body.name === "string" ? body.name : "", text: textOf(content), calls: Array.isArray(calls) ? calls.map(nameOfCall) : [] };
}

// messageOf is an item of a chat as a message: one of a kind that is not known, as JSON.
export function messageOf(item) {
  return knownMessageOf(item) ?? { speaker: "tool", name: typeof item?.type === "string" ? item.type : "item", text: typeof item === "string" ? item : JSON.stringify(item, null, 2), calls: [] };
}

// messagesOf is a document as a conversation; null if it is none.
export function messagesOf(document) {
  const items = Array.isArray(document) ? document : document?.messages;
  if (!Array.isArray(items) || items.length === 0) return null;
  const messages = items.map(knownMessageOf);
  return messages.every(Boolean) ? messages : null;
}

const Message = ({ speaker, name, text, calls }) => html`
  <li class=${speaker}>
    <h3>${name || speaker}</h3>
    ${text && html`<p>${text}</p>`}
    ${calls.length > 0 && html`<p class="note">calls ${calls.join(", ")}</p>`}
  </li>`;

export function Conversation({ messages }) {
  // The page is drawn again at every event: a long conversation only when it changes.
  const shown = useMemo(() => messages.map((m, i) => html`<${Message} key=${i} ...${m} />`), [messages]);
  return html`
    <ol class="conversation" tabindex="0" aria-label="Conversation">
      ${shown}
      ${messages.length === 0 && html`<li class="system"><p class="note">No message yet.</p></li>`}
    </ol>`;
}
