// What a program may write, and what the compiler has to refuse. Nothing of it runs.
import { ABSENT, BotwiredError, Conflict, Memory, Refused, binary, type Entry, type Revision } from "../../index.mjs";
import * as errors from "../../lib/errors.js";
import { Memory as Real } from "../../lib/memory.js";

export async function use(): Promise<void> {
  const memory = new Memory("my-agent", { url: "http://127.0.0.1:2689", patience: 1000, fetch });
  const name: string | undefined = await memory.get<string>("name");
  const facts: string[] = await memory.get<string[]>("facts", []);
  const entry: Entry<number> | undefined = await memory.entry<number>("count");
  const { version, seq } = await memory.set("count", 1, { ifVersion: entry?.version ?? ABSENT, wait: 500 });
  const count: number = await memory.update<number>("count", (n = 0) => n + 1);
  const later: number = await memory.update("count", async (n: number | undefined) => (n ?? 0) + 1);
  const text: string = await memory.append("log", "a line", { separator: "," });
  const states: Revision<number>[] = await memory.history<number>("count");
  const undone: Revision = await memory.undo("count", states[1]);
  const said: string | undefined = memory.state;
  const all: unknown[] = [name, facts, version, seq, count, later, text, undone, said, await memory.keys("a"), binary()];
  try {
    await memory.delete("count", { ifVersion: version });
  } catch (error) {
    if (error instanceof Conflict) all.push(error.version);
    else if (error instanceof Refused) all.push(error.status, error.detail);
    else if (error instanceof BotwiredError) all.push(error.message);
  }
  // @ts-expect-error there is no such option
  await memory.set("k", 1, { ttl: 60 });
  // @ts-expect-error a key is a text
  await memory.get(5);
  // @ts-expect-error a text is appended
  await memory.append("log", 5);
  // @ts-expect-error no method is there without await's promise
  const wrong: string = memory.get("k");
  all.push(wrong);
}

// The code has what the types say.
export const real: Memory = new Real("n");
export const thrown: BotwiredError[] = [new errors.Conflict("", ""), new errors.Refused(400, ""), new errors.Unavailable("")];
export const refused: Refused = new errors.Refused(400, "");
export const conflict: Conflict = new errors.Conflict("");
