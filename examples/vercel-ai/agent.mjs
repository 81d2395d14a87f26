// An agent of the Vercel AI SDK that remembers: two tools over botwired's Memory.
//
//     npm install
//     node agent.mjs "Remember: the keys are under the mat"
//     node agent.mjs "What do you remember?"
//
// model.mjs stands for a model: put one of yours here, such as openai("gpt-5").
import { generateText, isStepCount, tool } from "ai";
import { Memory } from "botwired";
import { z } from "zod";

import { model } from "./model.mjs";

const memory = new Memory("vercel-agent");

const tools = {
  remember: tool({
    description: "Keep a fact for later conversations.",
    inputSchema: z.object({ fact: z.string() }),
    async execute({ fact }) {
      await memory.update("facts", (facts = []) => [...facts, fact]);
      return withState("kept");
    },
  }),
  recall: tool({
    description: "Read all facts that were kept.",
    inputSchema: z.object({}),
    execute: async () => withState(await memory.get("facts", [])),
  }),
};

/** A tool's result, and what the model should know of its memory: that this is a copy, or that a write waits. */
function withState(result) {
  return memory.state === undefined ? { result } : { note: memory.state, result };
}

for (const prompt of process.argv.slice(2)) {
  const { text } = await generateText({ model, tools, stopWhen: isStepCount(5), prompt });
  console.log(text);
}
