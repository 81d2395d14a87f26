/**
 * The path of the botwired program for this platform.
 *
 * It throws an Error that says what to do if the package with the program is not installed, or if
 * there is none for this platform.
 */
export function binary(): string;

/** As `ifVersion`: write only if the entry does not exist. */
export const ABSENT: unique symbol;

export interface MemoryOptions {
  /**
   * The daemon's URL, else BOTWIRE_URL, else http://127.0.0.1:2689. A user and a password in it are sent as Basic
   * authorization.
   */
  url?: string | undefined;
  /** The token that the daemon wants from its callers. */
  token?: string | undefined;
  /**
   * The program's name in the history, of up to 64 characters; else BOTWIRED_AUTHOR, else the script's name, which is
   * sent only to an address on this machine.
   */
  author?: string | undefined;
  /** Milliseconds for one attempt of a request: 30,000. */
  timeout?: number | undefined;
  /**
   * Milliseconds for which a call makes attempts again, while the daemon restarts or asks to wait: 30,000. Its `wait` is
   * added.
   */
  patience?: number | undefined;
  /** The function to send requests with, for proxies and certificates of your own. */
  fetch?: typeof globalThis.fetch | undefined;
}

export interface WriteOptions {
  /**
   * An `Entry.version`, or ABSENT: write only if the entry is still that, and else throw `Conflict`. It holds between
   * all callers of one daemon. `undefined`, an entry's version on plain BotWire, throws `Unsupported`.
   */
  ifVersion?: string | typeof ABSENT | undefined;
  /** Wait up to so many milliseconds for upstream; `Written.state` says how far the write has come. */
  wait?: number | undefined;
}

/** An entry as it was read. */
export interface Entry<T = unknown> {
  key: string;
  value: T;
  /** The value as BotWire stores it: what every other client sees. */
  text: string;
  /**
   * Names the write that made the value, for `ifVersion`. undefined if the server keeps no versions; "" if a gateway on
   * the way has dropped it: then no condition can be sent.
   */
  version: string | undefined;
  createdAt: Date;
  updatedAt: Date;
}

/** The answer to an acknowledged write. */
export interface Written {
  /** Of the entry after this write, for `ifVersion`. undefined or "" if the answer has none. */
  version: string | undefined;
  /**
   * `pending`: durable in the daemon, and not confirmed upstream. `settled`: upstream has it. With `wait` also
   * `superseded` (a later write of another host stays, and the history has this one as `lost`) and `dead` (upstream has
   * refused it for good: see `botwired dead-letters`). undefined if no botwired has answered.
   */
  state: string | undefined;
  /** The number of the write's receipt: `/_botwired/receipts/SEQ` tells what has become of it. */
  seq: number | undefined;
}

/** A state that an entry has had. */
export interface Revision<T = unknown> {
  /** Names the state, for `undo`; undefined if no undo leads to it. */
  name: string | undefined;
  /**
   * What became of it: `pending`, `settled`, `superseded`, `dead`, `lost` (in a conflict of two hosts: the other one's later
   * write stays), `shown`, `gone` (upstream has ceased to hold it), `absent`, or `unsealed` (older than the seal).
   */
  state: string;
  /** false: it is a delete, or upstream did not hold the entry. */
  exists: boolean;
  /** undefined where the entry does not exist. */
  value: T | undefined;
  /** The program that wrote it, by its own word; "" if unknown. */
  author: string;
  /** The daemon that wrote it; "" if unknown. */
  host: string;
  /** This daemon wrote it. */
  here: boolean;
  writtenAt: Date;
}

/**
 * The entries of one namespace, by key: any JSON value under any text.
 *
 *     const memory = new Memory("my-agent");
 *     await memory.set("user:42:name", "Ada");
 *     await memory.get("user:42:name"); // "Ada", in this process and the next
 *
 * Every method rejects with a `BotwiredError`, or with a TypeError or a RangeError for an argument that cannot be.
 */
export class Memory {
  /** Nothing is connected yet. */
  constructor(namespace: string, options?: MemoryOptions);

  /** The name that the Memory was made with. */
  readonly namespace: string;

  /** The URL that requests go to, without a token. */
  readonly url: string;

  /** What the daemon has said last of this memory, in a sentence for the agent. undefined: all is well. */
  readonly state: string | undefined;

  /** The value, or `fallback` if the entry does not exist. */
  get<T = any>(key: string): Promise<T | undefined>;
  get<T = any>(key: string, fallback: T): Promise<T>;

  /** The value with its version and times, or undefined if the entry does not exist. */
  entry<T = any>(key: string): Promise<Entry<T> | undefined>;

  /** Whether the entry exists, whatever its value. */
  has(key: string): Promise<boolean>;

  /** Writes a value. When the promise is fulfilled, the daemon has it on its disk. */
  set(key: string, value: unknown, options?: WriteOptions): Promise<Written>;

  /** Deletes the entry. false: it did not exist. */
  delete(key: string, options?: WriteOptions): Promise<boolean>;

  /**
   * Writes `change(value)` so that no other caller's write is lost, and returns it.
   *
   * It calls `change` with the present value, or with undefined, and once more with the newer value whenever somebody
   * else has written meanwhile: let `change` do nothing but compute. Updates of one entry take turns within a process; one
   * within another that would wait for itself is refused with a `BotwiredError`. On plain BotWire, which keeps no versions,
   * it reads and writes, and may undo the write of another process.
   */
  update<T = any, R = T>(key: string, change: (value: T | undefined) => R | Promise<R>): Promise<R>;

  /**
   * Adds a text to the end of a text, behind the separator ("\n") if there is one already, and returns the whole text. As
   * with `update`, no other caller's write is lost.
   */
  append(key: string, text: string, options?: { separator?: string | undefined }): Promise<string>;

  /**
   * The keys that begin with `prefix`, the latest written first. A `*` at its end says no more.
   *
   * `process.emitWarning` gets an `Incomplete` if some may be missing: BotWire lists no more than 1,000, and the daemon
   * can only add those that it has seen.
   */
  keys(prefix?: string): Promise<string[]>;

  /**
   * The states that the entry has had, the present one first, as far as the daemon keeps them. Plain BotWire keeps none:
   * `Unsupported`.
   */
  history<T = any>(key: string): Promise<Revision<T>[]>;

  /**
   * Writes the state before the present one again, or the one that `to` names, and returns it.
   *
   * It is a write as any other, and the next undo takes it back. `Conflict`: somebody has written the entry meanwhile.
   * `Refused` with 409: there is nothing to undo; with 404: `to` is not kept.
   */
  undo<T = any>(key: string, to?: Revision | string): Promise<Revision<T>>;
}

/** A request of the memory has failed. It is the base of the others. */
export class BotwiredError extends Error {}

/**
 * The memory has not answered within the patience of the `Memory`, or no daemon is there.
 *
 * A write that throws it may have been made: its answer may be what was lost. Read the entry to find out.
 */
export class Unavailable extends BotwiredError {}

/** The daemon wants a token, or another one than it was sent. */
export class Unauthorized extends BotwiredError {}

/** The memory refuses the request, and would refuse it again. */
export class Refused extends BotwiredError {
  constructor(status: number, detail: string);
  /** The HTTP status: 400, 413, 422, 507, … */
  readonly status: number;
  /** The reason in the memory's own words. */
  readonly detail: string;
}

/** The entry is not as `ifVersion` names it: somebody has written it since. */
export class Conflict extends BotwiredError {
  constructor(message: string, version?: string);
  /** The entry's version now, and undefined if the entry does not exist. */
  readonly version: string | undefined;
}

/** The server behind the URL keeps no versions: it is BotWire itself, without a botwired before it. */
export class Unsupported extends BotwiredError {}

/** A warning: a list of keys may lack some. */
export class Incomplete extends Error {}
