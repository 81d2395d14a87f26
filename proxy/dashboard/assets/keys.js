// Keys as people write them. The Python package stores a key that BotWire would refuse under an escape: customer:8 is
// _.customer.3A8 in BotWire. clients/python/src/botwired/_names.py has the same, and internal/keyname.

const KEY = /^[a-zA-Z0-9_.-]{1,128}$/;
const DIGEST = /^_-[a-zA-Z0-9_-]{43}$/; // stands for a name whose escape would be too long
const MARK = "_.";

const UTF8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

const hex = (byte) => byte.toString(16).toUpperCase().padStart(2, "0");
const isUnicode = (text) => !/\p{Surrogate}/u.test(text);

const escaped = (name) => MARK + Array.from(new TextEncoder().encode(name),
  (byte) => (/[a-zA-Z0-9_-]/.test(String.fromCharCode(byte)) ? String.fromCharCode(byte) : `.${hex(byte)}`)).join("");

// nameIn is the name that an escape stands for; null if the text is none.
function nameIn(text) {
  if (!text.startsWith(MARK)) return null;
  const bytes = [];
  for (const [part] of text.slice(MARK.length).matchAll(/\.[0-9A-F]{2}|[^]/g)) {
    bytes.push(part.length === 3 ? parseInt(part.slice(1), 16) : part.charCodeAt(0));
  }
  try {
    const name = UTF8.decode(Uint8Array.from(bytes));
    return name && escaped(name) === text && !isPlain(name) ? name : null;
  } catch {
    return null;
  }
}

const isPlain = (name) => KEY.test(name) && !DIGEST.test(name) && nameIn(name) === null;

export const isKey = (text) => KEY.test(text);

// shownKey is a key of BotWire's as a person writes it, and wireKey the other way. A key that BotWire takes is itself.
export function shownKey(key) {
  const name = nameIn(key);
  return name === null || isKey(name) ? key : name;
}

export function wireKey(text) {
  if (isKey(text) || text === "" || !isUnicode(text)) return text;
  return escaped(text);
}

// prefixesOf are the beginnings in BotWire of the keys that begin with a text as they are shown.
export function prefixesOf(text) {
  const one = escaped(text);
  if (text === "" || !isUnicode(text) || one.startsWith(text)) return [text];
  return (isKey(text) ? [text, one] : [one]).filter(isKey);
}

export const begins = (key, text) => key.startsWith(text) || shownKey(key).startsWith(text);

// The Python package's own words for an entry: pythonName is the name of a key; null for a digest, whose value has it.
// pythonKey is the key of any name.
export const pythonName = (key) => (DIGEST.test(key) ? null : nameIn(key) ?? key);

export async function pythonKey(name) {
  if (isPlain(name)) return name;
  const one = escaped(name);
  if (one.length <= 128) return one;
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(name)));
  return `_-${btoa(String.fromCharCode(...digest)).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "")}`;
}

// unwrapped is the name and the text of a value under a digest: a line of JSON with the name, and the text below it. Of
// a value under any other key, and of another program's, it is the key's name and the value.
export async function unwrapped(key, value) {
  const name = pythonName(key);
  if (name !== null) return { name, text: value };
  const end = value.indexOf("\n");
  try {
    const { key: named } = JSON.parse(value.slice(0, end));
    if (end > 0 && typeof named === "string" && await pythonKey(named) === key) return { name: named, text: value.slice(end + 1) };
  } catch {
    // It is another program's, or the browser computes no digest: it does so for loopback and HTTPS only.
  }
  return { name: key, text: value };
}
