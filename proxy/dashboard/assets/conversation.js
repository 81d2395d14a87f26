// Chat histories as conversations: LangChain's messages (type and data, or type and content), those
// of the chat APIs (role and content), and an object that has them under "messages".

import { html } from "./vendor/htm-preact.js";

const SPEAKERS = {
  human: "user", user: "user", ai: "assistant", assistant: "assistant", model: "assistant", AIMessageChunk: "assistant",
  system: "system", developer: "system", tool: "tool", function: "tool",
};

// textOf is what a message says. Its content may be a text, or parts of which some are texts.
function textOf(content) {
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return content == null ? "" : JSON.stringify(content, null, 2);
  return content.map((part) => (typeof part === "string" ? part : part?.text ?? JSON.stringify(part, null, 2))).join("\n");
}

function messageOf(item) {
  if (item === null || typeof item !== "object") return null;
  const body = item.data ?? item;
  const speaker = SPEAKERS[item.role ?? item.type];
  if (!speaker || typeof body !== "object" || !("content" in body)) return null;
  const calls = body.tool_calls ?? body.additional_kwargs?.tool_calls ?? [];
  return { speaker, name: body.name ?? "", text: textOf(body.content), calls: calls.map((c) => c.name ?? c.function?.name ?? "tool") };
}

// messagesOf is a document as a conversation; null if it is none.
export function messagesOf(document) {
  const items = Array.isArray(document) ? document : document?.messages;
  if (!Array.isArray(items) || items.length === 0) return null;
  const messages = items.map(messageOf);
  return messages.every(Boolean) ? messages : null;
}

export const Conversation = ({ messages }) => html`
  <ol class="conversation" tabindex="0" aria-label="Conversation">
    ${messages.map((m, i) => html`
      <li key=${i} class=${m.speaker}>
        <h3>${m.name || m.speaker}</h3>
        ${m.text && html`<p>${m.text}</p>`}
        ${m.calls.length > 0 && html`<p class="note">calls ${m.calls.join(", ")}</p>`}
      </li>`)}
  </ol>`;
