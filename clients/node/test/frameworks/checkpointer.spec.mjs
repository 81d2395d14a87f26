// LangGraph's own validation of checkpoint savers, which is a suite for vitest.
import { specTest } from "@langchain/langgraph-checkpoint-validation";
import { Memory } from "botwired";
import { CheckpointSaver } from "botwired/langgraph";

let count = 0;

specTest({
  checkpointerName: "botwired's CheckpointSaver",
  createCheckpointer: () => new CheckpointSaver(new Memory(`validation-${process.pid}-${count++}`), { keep: 100 }),
});
