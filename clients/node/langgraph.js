"use strict";

Object.assign(exports, require("./lib/langgraph.js")(require("@langchain/langgraph-checkpoint")));
