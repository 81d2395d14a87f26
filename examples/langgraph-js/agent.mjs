// A LangGraph.js agent that remembers: botwired keeps the state of each of its threads, and what it knows of a user.
//
//     npm install
//     node agent.mjs "Remember: the keys are under the mat"
//     node agent.mjs "What do you remember?"
//
// model.mjs stands for a model: put one of yours here, such as new ChatOpenAI({ model: "gpt-5" }).
import { MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import { Memory } from "botwired";
import { CheckpointSaver, Store } from "botwired/langgraph";

import { Model } from "./model.mjs";

const model = new Model({});
const memory = new Memory("langgraph-js-agent");

async function answer({ messages }, { store, configurable }) {
  const reply = await model.invoke(messages);
  await store.put(["users", configurable.user_id], "latest", { said: messages.at(-1).text });
  return { messages: [reply] };
}

const agent = new StateGraph(MessagesAnnotation)
  .addNode("answer", answer)
  .addEdge(START, "answer")
  .compile({ checkpointer: new CheckpointSaver(memory), store: new Store(memory) });

for (const message of process.argv.slice(2)) {
  const configurable = { thread_id: "conversation-1", user_id: "user-42" };
  const { messages } = await agent.invoke({ messages: [["user", message]] }, { configurable });
  console.log(messages.at(-1).text);
}
