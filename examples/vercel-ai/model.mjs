// A stand-in for a model. It keeps what begins with "Remember: ", and answers everything else with what is kept.
import { MockLanguageModelV4 } from "ai/test";

export const model = new MockLanguageModelV4({ doGenerate: async ({ prompt }) => reply(prompt.at(-1)) });

function reply({ role, content }) {
  if (role === "tool") return says(answerTo(content[0]));
  const text = content.map((part) => part.text).join("");
  const fact = text.startsWith("Remember: ") && text.slice("Remember: ".length);
  return fact ? calls("remember", { fact }) : calls("recall", {});
}

function answerTo({ toolName, output }) {
  if (output.type.startsWith("error")) return `The tool failed: ${JSON.stringify(output.value)}`;
  return toolName === "recall" ? `I remember: ${output.value.result.join("; ")}` : "I will remember that.";
}

const says = (text) => generated("stop", { type: "text", text });

const calls = (toolName, input) =>
  generated("tool-calls", { type: "tool-call", toolCallId: crypto.randomUUID(), toolName, input: JSON.stringify(input) });

function generated(reason, ...content) {
  const usage = { inputTokens: { total: 1, noCache: 1 }, outputTokens: { total: 1, text: 1 } };
  return { content, finishReason: { unified: reason, raw: undefined }, usage, warnings: [] };
}
