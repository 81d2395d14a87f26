// An agent of the Vercel AI SDK that remembers: two tools over BotWire's memory API, which botwired speaks.
//
//     npm install
//     node agent.mjs "Remember: the keys are under the mat"
//     node agent.mjs "What do you remember?"
//
// model.mjs stands for a model: put one of yours here, such as openai("gpt-5").
import { generateText, isStepCount, tool } from "ai";
import { z } from "zod";

import { Memory } from "./memory.mjs";
import { model } from "./model.mjs";

const memory = new Memory("vercel-agent");

const tools = {
  remember: tool({
    description: "Keep a fact for later conversations.",
    inputSchema: z.object({ fact: z.string() }),
    async execute({ fact }) {
      // If an answer is lost and the write is tried again, the fact may be there already.
      await memory.update("facts", (facts = []) => (facts.includes(fact) ? facts : [...facts, fact]));
      return "kept";
    },
  }),
  recall: tool({
    description: "Read all facts that were kept.",
    inputSchema: z.object({}),
    execute: async () => (await memory.get("facts")) ?? [],
  }),
};

for (const prompt of process.argv.slice(2)) {
  const { text } = await generateText({ model, tools, stopWhen: isStepCount(5), prompt });
  console.log(text);
}
