// What agents do from Node with plain fetch, checked step by step. The counterpart of client.py, which
// says how proof/e2e/run talks to it.
import dns from "node:dns";
import { createInterface } from "node:readline";
import { isDeepStrictEqual } from "node:util";

// fetch takes no URL with a user and a password in it: the password becomes a header.
const [, userInfo, address] = process.env.BOTWIRE_URL.match(/^http:\/\/(?:([^@]*)@)?(.*)$/);
const base = `http://${address}`;
const credentials = userInfo ? { authorization: `Bearer ${decodeURIComponent(userInfo.split(":")[1])}` } : {};
// In place of the name server of a compose project.
const { lookup } = dns;
dns.lookup = (host, ...rest) => lookup(host === process.env.E2E_SERVICE ? "127.0.0.1" : host, ...rest);
const outage = process.argv.includes("outage");
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const stored = {}; // namespace -> key -> text: what upstream must hold in the end

const strings = {
  empty: "", plain: "Pedro", spaces: "  two  words ", quotes: "say \"hi\" \\ 'there'",
  controls: "tab\tline\nreturn\r\x01\x1f\x7f", "number-like": "0042", "null-like": "null",
  longest: "x".repeat(100_000), "longest.emoji": "\u{1f600}".repeat(100_000), path: "../../etc/passwd?x=1#y %2F %00",
};
const objects = {
  "empty-object": {}, nested: { b: [1, { c: null }], a: { deep: { deeper: [true, false] } } },
  numbers: { small: 1e-7, negative: -0.5, safe: 2 ** 53 - 1 }, "unicode-object": { "schl\u00fcssel": "\u{1f511}", "\u2028": "\0" },
};
const arrays = {
  "empty-array": [], "deep-array": [1, [2, [3, [null, "four"]]]], "long-array": [...Array(2000).keys()],
  messages: [...Array(50).keys()].map((i) => ({ role: "user", content: `message ${i}` })),
};
const unicode = {
  emoji: "\u{1f469}\u200d\u{1f469}\u200d\u{1f467}\u200d\u{1f466} \u{1f1f5}\u{1f1f9} \u2764\ufe0f",
  combining: "e\u0301 and \u00e9 are not the same", separators: "a\u2028b\u2029c\u0085d",
  NUL: "before\0after", "only-NUL": "\0", BOM: "\ufeffx\ufeff", last: "\uffff\u{10ffff}\ufffd",
  "right-to-left": "\u05e9\u05dc\u05d5\u05dd \u202eabc", "mixed.Key_1-": "\u65e5\u672c\u8a9e\u306e\u8a18\u61b6",
};

const textOf = (value) => (typeof value === "string" ? value : JSON.stringify(value));

function check(name, got, want) {
  if (isDeepStrictEqual(got, want)) console.log(`ok ${name}`);
  else console.log(`not ok ${name}\n    got  ${shortened(got)}\n    want ${shortened(want)}`);
}

function shortened(value) {
  const text = String(JSON.stringify(value)).replaceAll("\n", " ");
  return text.length <= 300 ? text : `${text.slice(0, 140)} ... ${text.slice(-140)} (${text.length} characters)`;
}

/** One request: status, and the JSON of the answer. */
async function ask(method, path, body) {
  const headers = body === undefined ? { ...credentials } : { ...credentials, "content-type": "application/json" };
  const answer = await fetch(`${base}/memory/${path}`, { method, headers, body: body && JSON.stringify(body) });
  return { status: answer.status, ...(await answer.json()) };
}

/** The client that an agent's author writes in ten lines. */
const memory = {
  async set(ns, key, text) {
    const { status, bytes, stored, detail } = await ask("PUT", `${ns}/${key}`, { value: text });
    if (status !== 200 || !stored || bytes !== [...text].length) throw new Error(`PUT ${ns}/${key}: ${status} ${bytes} ${detail}`);
  },
  async get(ns, key, fallback) {
    const { status, value } = await ask("GET", `${ns}/${key}`);
    if (status !== 200 && status !== 404) throw new Error(`GET ${ns}/${key}: ${status}`);
    return status === 404 ? fallback : value;
  },
  async delete(ns, key) {
    return (await ask("DELETE", `${ns}/${key}`)).status;
  },
};

/** A namespace, and what it must hold. */
class Checked {
  constructor(namespace) {
    this.namespace = namespace;
    this.texts = stored[namespace] = {};
  }
  async set(key, value) {
    await memory.set(this.namespace, key, textOf(value));
    this.texts[key] = textOf(value);
  }
  async delete(key) {
    const want = key in this.texts ? 200 : 404;
    delete this.texts[key];
    check(`${this.namespace}: delete ${key}`, await memory.delete(this.namespace, key), want);
  }
  /** Compares everything. */
  async look(what, gone = []) {
    const name = `${this.namespace}, ${what}`;
    const got = {}, sizes = {}, listed = {}, defaults = [];
    for (const key of Object.keys(this.texts)) got[key] = await memory.get(this.namespace, key);
    check(`${name}: get of ${Object.keys(got).length} keys`, got, this.texts);
    for (const key of gone) defaults.push(await memory.get(this.namespace, key, "default"));
    check(`${name}: deleted keys get their default`, defaults, gone.map(() => "default"));
    const list = await ask("GET", `${this.namespace}?limit=1000`);
    for (const row of list.keys ?? []) listed[row.key] = row.bytes;
    // The service counts characters up to the first NUL.
    for (const [key, text] of Object.entries(this.texts)) sizes[key] = [...text.split("\0")[0]].length;
    check(`${name}: keys and their sizes`, { count: list.count, listed: sorted(listed) }, { count: Object.keys(sizes).length, listed: sorted(sizes) });
  }
}

const sorted = (object) => Object.fromEntries(Object.entries(object).sort());

/** Every kind of value set, read, overwritten, deleted and set anew. */
async function* values(namespace, first) {
  const ns = new Checked(namespace);
  const names = Object.keys(first);
  for (const key of names) await ns.set(key, first[key]);
  for (const key of ["gone-1", "gone-2", "gone-3"]) await ns.set(key, "to be deleted");
  await ns.delete("gone-1");
  await ns.look("first half", ["gone-1"]);
  yield;
  await ns.delete("gone-2");
  await ns.set("gone-1", "back again");
  await ns.delete("gone-1");
  for (let i = 0; i < names.length; i += 2) {
    await ns.set(names[i], "overwritten");
    await ns.set(names[i], first[names.at(-1)]);
    await ns.set("new." + names[i], first[names[i]]);
  }
  await ns.delete(names[0]);
  await ns.set(names[0], first[names[0]]);
  await ns.delete(names[1]);
  await Promise.all(names.map((_, i) => ns.set(`together-${i}`, first[names[i]]))); // all at once
  const gone = ["gone-1", "gone-2", names[1]];
  await ns.look("second half", gone);
  yield;
  await ns.look("afterwards", gone);
}

/** What nobody has written, and what is refused. */
async function* unknown() {
  const name = "node-unknown", ns = new Checked(name);
  await ns.set("known", "x");
  await ns.look("first half");
  check(`${name}: get with a default`, await memory.get(name, "never-1", "default"), "default");
  check(`${name}: delete`, await memory.delete(name, "never-1"), 404);
  check(`${name}: too long`, (await ask("PUT", `${name}/known`, { value: "x".repeat(100_001) })).status, 400);
  check(`${name}: no string`, (await ask("PUT", `${name}/known`, { value: { a: 1 } })).status, 422);
  yield;
  // Nobody can know, while upstream is down, what it holds: an answer would be a guess.
  check(`${name}: get of what was never asked for`, (await ask("GET", `${name}/never-2`)).status, 404);
  check("node-unlisted-2: get of what was never asked for", (await ask("GET", "node-unlisted-2/never")).status, outage ? 503 : 404);
  check(`${name}: delete of what the listing lacks`, await memory.delete(name, "never-3"), 404);
  check("node-unlisted: delete of what was never asked for", await memory.delete("node-unlisted", "never"), outage ? 200 : 404);
  check("node-unlisted: it is deleted", await memory.get("node-unlisted", "never", "default"), "default");
  check(`${name}: no string`, (await ask("PUT", `${name}/known`, { value: 1 })).status, 422);
  await ns.look("second half");
  yield;
  await ns.look("afterwards", ["never-1", "never-2", "never-3"]);
}

/** A conversation of 200 messages, each of which reads and writes all of them. */
async function* history() {
  const name = "node-history", ns = new Checked(name);
  const said = [...Array(200).keys()].map((i) => ({ role: i % 2 ? "assistant" : "user", content: `message ${i}: \u00e9 \u{1f600} \u2028 "quoted"` }));
  const read = async () => JSON.parse(await memory.get(name, "conversation", "[]"));
  const say = async (message) => ns.set("conversation", [...(await read()), message]);
  const heard = async (count) => check(`${name}: ${count} messages`, await read(), said.slice(0, count));
  await heard(0);
  for (let i = 0; i < 100; i++) await say(said[i]);
  await heard(100);
  yield;
  for (let i = 100; i < 200; i++) await say(said[i]);
  await heard(200);
  yield;
  await heard(200);
}

const scenarios = [
  values("node-strings", strings), values("node-objects", objects), values("node-arrays", arrays),
  values("node-unicode", unicode), unknown(), history(),
];
for (let part = 0; part < 3; part++) {
  for (const scenario of scenarios) await scenario.next();
  if (part < 2) {
    console.log("PART");
    await lines.next();
  }
}
console.log("STORED " + JSON.stringify(stored));
process.stdin.destroy();
