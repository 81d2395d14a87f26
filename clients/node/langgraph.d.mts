import {
  BaseCheckpointSaver,
  BaseStore,
  type ChannelVersions,
  type Checkpoint,
  type CheckpointListOptions,
  type CheckpointMetadata,
  type CheckpointTuple,
  type Operation,
  type OperationResults,
  type PendingWrite,
  type SerializerProtocol,
} from "@langchain/langgraph-checkpoint";
import type { Memory } from "./index.js";

type Config = CheckpointTuple["config"];

/**
 * The last checkpoints of any number of threads, for any number of processes at once.
 *
 * `keep` says how many checkpoints of a thread there are. With 1, a graph goes on after an interrupt or a crash, and
 * remembers; with more, it can also go back to one of them. A thread is one entry however many steps it takes, so a higher
 * number costs bytes and no writes. If an entry has no room for all of them, the oldest go.
 */
export class CheckpointSaver extends BaseCheckpointSaver {
  constructor(memory: Memory, options?: { keep?: number | undefined; serde?: SerializerProtocol | undefined });
  getTuple(config: Config): Promise<CheckpointTuple | undefined>;
  list(config: Config, options?: CheckpointListOptions): AsyncGenerator<CheckpointTuple>;
  put(config: Config, checkpoint: Checkpoint, metadata: CheckpointMetadata, newVersions: ChannelVersions): Promise<Config>;
  putWrites(config: Config, writes: PendingWrite[], taskId: string, taskPath?: string): Promise<void>;
  deleteThread(threadId: string): Promise<void>;
}

/**
 * Items of any namespaces and keys, whose values are objects of JSON, of any length.
 *
 * A search reads the items below the namespace, the latest written first, and compares them with the filter. It has no
 * vectors: it lists the same with a query, and warns once. Without a daemon, searches see the latest 1,000 keys.
 */
export class Store extends BaseStore {
  constructor(memory: Memory);
  batch<Op extends Operation[]>(operations: Op): Promise<OperationResults<Op>>;
}
