// A stand-in for a chat model. It answers questions with all that it was told to remember in the conversation.
import { BaseChatModel } from "@langchain/core/language_models/chat_models";
import { AIMessage, HumanMessage } from "@langchain/core/messages";

export class Model extends BaseChatModel {
  _llmType() {
    return "stand-in";
  }

  async _generate(messages) {
    const said = messages.filter((message) => HumanMessage.isInstance(message)).map(({ text }) => text);
    const facts = said.filter((text) => text.startsWith("Remember: ")).map((text) => text.slice("Remember: ".length));
    const text = said.at(-1).startsWith("Remember: ") ? "I will remember that." : `I remember: ${facts.join("; ")}`;
    return { generations: [{ text, message: new AIMessage(text) }] };
  }
}
