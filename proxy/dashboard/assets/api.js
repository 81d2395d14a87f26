// The daemon's HTTP. A relative URL would carry the password of the page's own address, which
// fetch refuses: so every URL begins with the origin, and the browser adds the password itself.

const own = `${location.origin}/_botwired/`;

// Refusal is an answer that is no success; its message is the daemon's own sentence.
export class Refusal extends Error {
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }
}

async function ask(method, url, options = {}) {
  let answer;
  try {
    answer = await fetch(url, { method, ...options, headers: { "Botwired-Author": "dashboard", ...options.headers } });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refusal(0, "The daemon does not answer. It may have stopped.");
  }
  if (answer.ok) return answer;
  const text = await answer.text();
  let detail = text;
  try {
    detail = JSON.parse(text).detail ?? text;
  } catch {
    // A proxy's answer, say, is no JSON: then its text has to do.
  }
  throw new Refusal(answer.status, typeof detail === "string" ? detail : JSON.stringify(detail));
}

// address is the URL of a path of the daemon's own surface. A parameter without a value is left out, but for the
// author: a program may have no name.
export function address(path, parameters = {}) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) {
    if (value != null && (value !== "" || name === "author")) query.set(name, value);
  }
  return own + path + (query.size ? `?${query}` : "");
}

export const get = async (path, parameters, options) => (await ask("GET", address(path, parameters), options)).json();
export const post = async (path, parameters) => (await ask("POST", address(path, parameters))).json();
export const remove = async (path) => (await ask("DELETE", address(path))).json();

// A browser takes the keys "." and ".." for folders, also if they are escaped, and asks for
// something else. So this page leaves them alone.
export const unreachable = (key) => key === "." || key === "..";

// A gateway may change or drop the headers that HTTP defines: the daemon has each of these also under a name of its own.
const tagOf = (answer) => answer.headers.get("Botwired-ETag") ?? answer.headers.get("ETag");
const conditions = (name, value) => ({ [name]: value, [`Botwired-${name}`]: value });

const entryAddress = (namespace, key) => `${location.origin}/memory/${encodeURIComponent(namespace)}/${encodeURIComponent(key)}`;

// readVersions is the versions of an entry, the present one first, with the tag that an undo is conditional on. Of
// two answers, the one that was asked for later is the newer one. The one that to names is among them, if it is kept.
export async function readVersions(namespace, key, to, signal) {
  const asked = performance.now();
  const answer = await ask("GET", address("revisions", { namespace, key, to }), { signal });
  const { revisions, why } = await answer.json();
  return { versions: revisions, why, tag: tagOf(answer), asked };
}

export const undo = (namespace, key, to, tag) => ask("POST", address("undo", { namespace, key, to }), { headers: conditions("If-Match", tag) });

// readEntry is an entry as an agent would read it, with its tag; null if there is none.
export async function readEntry(namespace, key, signal) {
  try {
    const answer = await ask("GET", entryAddress(namespace, key), { signal });
    const source = answer.headers.get("Cache-Status") ?? "";
    const age = answer.headers.get("Age");
    return { ...(await answer.json()), tag: tagOf(answer), source, age: age == null ? null : Number(age) };
  } catch (error) {
    if (error instanceof Refusal && error.status === 404) return null;
    throw error;
  }
}

// onlyIf is the condition that what a write replaces is what the page has shown: 412 if not.
const onlyIf = (shown) => (shown ? conditions("If-Match", shown.tag) : conditions("If-None-Match", "*"));

export const writeEntry = (namespace, key, value, shown) =>
  ask("PUT", entryAddress(namespace, key), {
    headers: { "Content-Type": "application/json", ...onlyIf(shown) },
    body: JSON.stringify({ value }),
  });

export const deleteEntry = (namespace, key, shown) => ask("DELETE", entryAddress(namespace, key), { headers: onlyIf(shown) });
