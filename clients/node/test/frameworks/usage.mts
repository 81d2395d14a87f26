// LangGraph takes the saver and the store, by its own types. Nothing of it runs.
import { MessagesAnnotation, START, StateGraph, type BaseStore } from "@langchain/langgraph";
import { Memory } from "botwired";
import { CheckpointSaver, Store } from "botwired/langgraph";

const memory = new Memory("my-agent");
const store: BaseStore = new Store(memory);
export const graph = new StateGraph(MessagesAnnotation)
  .addNode("answer", () => ({ messages: [] }))
  .addEdge(START, "answer")
  .compile({ checkpointer: new CheckpointSaver(memory, { keep: 3 }), store });
