"use strict";

// LangGraph.js's checkpoint saver and store. The framework is an argument: by import and by require, LangGraph has classes
// of its own in each of the two.
const { deflateSync, inflateSync } = require("node:zlib");
const { isObject } = require("./http.js");
const { Threads } = require("./langgraph-threads.js");
const { Documents, each } = require("./parts.js");
const { join, split } = require("./paths.js");

/** @import * as Framework from "@langchain/langgraph-checkpoint" */
/** @import { Memory } from "../index.js" */
/** @import { Kept, Write } from "./langgraph-threads.js" */

const ROOT = "store";
/** No path begins so: a ~ in a label is escaped. */
const PARTS = `${ROOT}~parts/`;

/** @param {typeof Framework} framework */
module.exports = function langgraph({ BaseCheckpointSaver, BaseStore, WRITES_IDX_MAP, compareWritesSortKeys, getCheckpointId, writesSortKey }) {
  class CheckpointSaver extends BaseCheckpointSaver {
    #keep;
    #threads;

    /** @param {Memory} memory @param {{ keep?: number, serde?: Framework.SerializerProtocol }} [options] */
    constructor(memory, { keep = 1, serde } = {}) {
      super(serde);
      if (!(Number.isSafeInteger(keep) && keep >= 1)) throw new TypeError(`keep is ${keep}: it must be 1 or more`);
      this.#keep = keep;
      this.#threads = new Threads(memory);
    }

    /** @param {Framework.CheckpointTuple["config"]} config */
    async getTuple(config) {
      if (config.configurable?.thread_id === undefined) return undefined;
      const { threadId, namespace } = placeOf(config);
      const wanted = getCheckpointId(config);
      const [kept] = await this.#threads.read(threadId, namespace, (all) => all.filter(({ id }) => !wanted || id === wanted).slice(0, 1));
      return kept === undefined ? undefined : this.#tuple(threadId, namespace, kept);
    }

    /** @param {Framework.CheckpointTuple["config"]} config @param {Framework.CheckpointListOptions} [options] */
    async *list(config, { before, filter, limit = Infinity } = {}) {
      const last = before && getCheckpointId(before);
      const wanted = getCheckpointId(config);
      for (const [threadId, namespace] of await this.#places(config)) {
        const isWanted = (/** @type {Kept} */ { id }) => (!wanted || id === wanted) && (!last || id < last);
        const found = await this.#threads.read(threadId, namespace, (all) => all.filter(isWanted));
        for (const kept of found) {
          if (limit <= 0) return;
          const tuple = await this.#tuple(threadId, namespace, kept);
          if (filter && !matches(tuple.metadata, filter)) continue;
          limit--;
          yield tuple;
        }
      }
    }

    /** @param {Framework.CheckpointTuple["config"]} config @returns {Promise<[string, string][]>} */
    async #places(config) {
      const { thread_id: threadId, checkpoint_ns: namespace } = config.configurable ?? {};
      if (threadId !== undefined && namespace !== undefined) return [[String(threadId), namespace]];
      const all = await this.#threads.places(threadId === undefined ? undefined : String(threadId));
      return namespace === undefined ? all : all.filter(([, each]) => each === namespace);
    }

    /**
     * @param {Framework.CheckpointTuple["config"]} config
     * @param {Framework.Checkpoint} checkpoint
     * @param {Framework.CheckpointMetadata} metadata
     * @param {Framework.ChannelVersions} _versions
     */
    async put(config, checkpoint, metadata, _versions) {
      const { threadId, namespace } = placeOf(config);
      const id = checkpoint.id;
      const fields = { id, parent: getCheckpointId(config) || null, checkpoint: await this.#dump(checkpoint), metadata: await this.#dump(metadata) };
      await this.#threads.change(threadId, namespace, (thread) => {
        const same = thread.checkpoints.find((each) => each.id === id);
        const writes = same?.writes ?? thread.early[id] ?? [];
        const all = [...thread.checkpoints.filter((each) => each !== same), { ...fields, writes }];
        all.sort((one, other) => (one.id < other.id ? 1 : -1));
        thread.checkpoints = all.slice(0, this.#keep);
        const newest = /** @type {Kept} */ (all[0]).id;
        thread.early = Object.fromEntries(Object.entries(thread.early).filter(([key]) => key > newest));
      });
      return configOf(threadId, namespace, id);
    }

    /**
     * @param {Framework.CheckpointTuple["config"]} config
     * @param {Framework.PendingWrite[]} writes
     * @param {string} taskId
     * @param {string} [taskPath]
     */
    async putWrites(config, writes, taskId, taskPath = "") {
      const { threadId, namespace } = placeOf(config);
      const checkpointId = getCheckpointId(config);
      if (!checkpointId) throw new TypeError('the config of putWrites must have a "checkpoint_id" in its "configurable"');
      const made = writes.map(async ([channel, value], index) => {
        return { task: taskId, path: taskPath, index: WRITES_IDX_MAP[channel] ?? index, channel, value: await this.#dump(value) };
      });
      const news = await Promise.all(made);
      await this.#threads.change(threadId, namespace, (thread) => {
        const kept = thread.checkpoints.find(({ id }) => id === checkpointId);
        if (kept !== undefined) kept.writes = merged(kept.writes, news);
        else if (thread.checkpoints.some(({ id }) => id > checkpointId)) return; // the checkpoint has gone, and its writes with it
        else thread.early[checkpointId] = merged(thread.early[checkpointId] ?? [], news);
      });
    }

    /** @param {string} threadId */
    async deleteThread(threadId) {
      await this.#threads.delete(threadId);
    }

    /** @param {string} threadId @param {string} namespace @param {Kept} kept @returns {Promise<Framework.CheckpointTuple>} */
    async #tuple(threadId, namespace, { id, parent, checkpoint, metadata, writes }) {
      const pending = writes.map(async ({ task, channel, value }) => /** @type {Framework.CheckpointPendingWrite} */ ([task, channel, await this.#load(value)]));
      return {
        config: configOf(threadId, namespace, id),
        checkpoint: await this.#load(checkpoint),
        metadata: await this.#load(metadata),
        pendingWrites: await Promise.all(pending),
        ...(parent === null ? {} : { parentConfig: configOf(threadId, namespace, parent) }),
      };
    }

    /** @param {unknown} value */
    async #dump(value) {
      const [type, data] = await this.serde.dumpsTyped(value);
      return `${type}:${deflateSync(data).toString("base64")}`;
    }

    /** @param {string | string[]} text */
    async #load(text) {
      const [type = "", data = ""] = /** @type {string} */ (text).split(":");
      return this.serde.loadsTyped(type, new Uint8Array(inflateSync(Buffer.from(data, "base64"))));
    }
  }

  /**
   * Writes in LangGraph's order. Of a task's regular writes the first counts, of its special ones the last.
   * @param {Write[]} writes
   * @param {Write[]} news
   */
  function merged(writes, news) {
    const all = new Map(writes.map((write) => [`${write.task} ${write.index}`, write]));
    for (const write of news) {
      const name = `${write.task} ${write.index}`;
      if (write.index < 0 || !all.has(name)) all.set(name, { ...write }); // a further attempt needs the whole value
    }
    const key = (/** @type {Write} */ { path, task, index }) => writesSortKey(path, task, index);
    return [...all.values()].sort((one, other) => compareWritesSortKeys(key(one), key(other)));
  }

  class Store extends BaseStore {
    #memory;
    #documents;
    #hasWarned = false;

    /** @param {Memory} memory */
    constructor(memory) {
      super();
      this.#memory = memory;
      this.#documents = new Documents(memory, (name) => PARTS + name);
    }

    /**
     * Answers the reads, and then writes: of several writes of one item, the last.
     * @template {Framework.Operation[]} Op
     * @param {Op} operations
     * @returns {Promise<Framework.OperationResults<Op>>}
     */
    async batch(operations) {
      const results = await each(operations, async (op) => {
        if ("namespacePrefix" in op) return this.#search(op);
        if ("value" in op) return undefined;
        if ("key" in op) return this.#item(op.namespace, op.key);
        return this.#listNamespaces(op);
      });
      /** @type {Map<string, Record<string, unknown> | null>} */
      const writes = new Map();
      for (const op of operations) if ("value" in op) writes.set(keyOf(op.namespace, op.key), op.value);
      for (const [key, value] of writes) await (value === null ? this.#documents.remove(key) : this.#documents.put(key, value));
      return /** @type {any} */ (results);
    }

    /** @param {Framework.SearchOperation} op */
    async #search({ namespacePrefix, filter, query, limit = 10, offset = 0 }) {
      if (query && !this.#hasWarned) {
        this.#hasWarned = true;
        process.emitWarning("botwired's store has no vectors to compare a query with: a search lists the items, the latest first");
      }
      const paths = await this.#paths(namespacePrefix);
      if (!filter) return this.#items(paths.slice(offset, offset + limit));
      const found = [];
      for (let start = 0; start < paths.length && found.length < offset + limit; start += 64) {
        const items = await this.#items(paths.slice(start, start + 64));
        found.push(...items.filter(({ value }) => matches(value, filter)));
      }
      return found.slice(offset, offset + limit);
    }

    /** @param {Framework.ListNamespacesOperation} op */
    async #listNamespaces({ matchConditions = [], maxDepth, limit = 100, offset = 0 }) {
      const namespaces = (await this.#paths([])).map((path) => path.slice(0, -1));
      const matching = namespaces.filter((namespace) => matchConditions.every((condition) => has(namespace, condition)));
      const names = new Set(matching.map((namespace) => JSON.stringify(namespace.slice(0, maxDepth))));
      return [...names].map((name) => JSON.parse(name)).sort((one, other) => (join(one) < join(other) ? -1 : 1)).slice(offset, offset + limit);
    }

    /**
     * The namespaces, each with a key at its end, of the items below a namespace.
     * @param {string[]} prefix
     */
    async #paths(prefix) {
      return (await this.#memory.keys(`${join([ROOT, ...prefix])}/`)).map((key) => split(key).slice(1));
    }

    /** @param {string[][]} paths */
    async #items(paths) {
      const items = await each(paths, (path) => this.#item(path.slice(0, -1), /** @type {string} */ (path.at(-1))));
      return items.filter((item) => item !== null); // some were deleted meanwhile
    }

    /** @param {string[]} namespace @param {string} key @returns {Promise<Framework.Item | null>} */
    async #item(namespace, key) {
      const entry = await this.#documents.load(keyOf(namespace, key));
      if (entry === undefined || !isObject(entry.value)) return null; // a value that no store has written is none
      return { value: entry.value, key, namespace, createdAt: entry.createdAt, updatedAt: entry.updatedAt };
    }
  }

  return { CheckpointSaver, Store };
};

/** @param {Framework.CheckpointTuple["config"]} config */
function placeOf({ configurable = {} }) {
  if (configurable.thread_id === undefined) throw new TypeError('the config must have a "thread_id" in its "configurable": it names the conversation');
  return { threadId: String(configurable.thread_id), namespace: /** @type {string} */ (configurable.checkpoint_ns ?? "") };
}

/** @param {string} threadId @param {string} namespace @param {string} checkpointId */
function configOf(threadId, namespace, checkpointId) {
  return { configurable: { thread_id: threadId, checkpoint_ns: namespace, checkpoint_id: checkpointId } };
}

/** @param {string[]} namespace @param {string} key */
function keyOf(namespace, key) {
  return join([ROOT, ...namespace, key]);
}

/** @param {string[]} namespace @param {Framework.MatchCondition} condition */
function has(namespace, { matchType, path }) {
  if (path.length > namespace.length) return false;
  const part = matchType === "prefix" ? namespace.slice(0, path.length) : namespace.slice(namespace.length - path.length);
  return path.every((wanted, at) => wanted === "*" || wanted === part[at]);
}

/**
 * Compares with a filter: equal values, or those for which the operators hold, at any depth.
 * @param {unknown} value
 * @param {unknown} wanted
 * @returns {boolean}
 */
function matches(value, wanted) {
  if (Array.isArray(wanted)) return Array.isArray(value) && value.length === wanted.length && wanted.every((each, at) => matches(value[at], each));
  if (!isObject(wanted)) return value === wanted;
  const fields = Object.entries(wanted);
  if (fields.some(([name]) => name.startsWith("$"))) return fields.every(([name, operand]) => holds(name, value, operand));
  return isObject(value) && fields.every(([name, each]) => matches(value[name], each));
}

/**
 * @param {string} name
 * @param {unknown} value
 * @param {any} operand
 */
function holds(name, value, operand) {
  const isComparable = typeof value === typeof operand && (typeof value === "number" || typeof value === "string");
  switch (name) {
    case "$eq":
      return matches(value, operand);
    case "$ne":
      return !matches(value, operand);
    case "$gt":
      return isComparable && value > operand;
    case "$gte":
      return isComparable && value >= operand;
    case "$lt":
      return isComparable && value < operand;
    case "$lte":
      return isComparable && value <= operand;
    default:
      throw new TypeError(`no operator of filters: ${name}. There are $eq, $ne, $gt, $gte, $lt and $lte`);
  }
}
