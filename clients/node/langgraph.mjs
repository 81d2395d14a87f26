import * as framework from "@langchain/langgraph-checkpoint";
import langgraph from "./lib/langgraph.js";

export const { CheckpointSaver, Store } = langgraph(framework);
