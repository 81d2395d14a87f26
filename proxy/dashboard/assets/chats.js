// The chats that the Python package's adapters write, put together from their entries. LangChain, the OpenAI Agents SDK
// and LlamaIndex share a log (clients/python/src/botwired/_log.py has its form), and Pydantic AI has records
// (pydantic_ai.py). Both keep their newest items in the entry itself, and older ones in segments of their own.

import { readEntry } from "./api.js";
import { parsed } from "./json.js";
import { pythonKey, unwrapped } from "./keys.js";

const MARK = "="; // begins every part of something that is too long for one value

const isObject = (value) => value !== null && typeof value === "object" && !Array.isArray(value);
const isNames = (names) => Array.isArray(names) && names.every((name) => typeof name === "string");

const isParts = (value) => isObject(value) && value.botwired === "parts" && isNames(value.parts);
const isLog = (value) => isObject(value) && value.botwired === "log" && Array.isArray(value.items);
const isRecord = (value) => isObject(value) && isObject(value.record) && isNames(value.segments) && Array.isArray(value.entries);

// SEALED has the segments and parts that were read: they never change.
const SEALED = new Map();
const MOST_SEALED = 500;

// Lost says that an entry is gone which a chat still names.
class Lost extends Error {}

async function readText(namespace, name, signal) {
  const key = await pythonKey(name);
  const place = `${namespace}/${key}`;
  const known = SEALED.get(place);
  if (known !== undefined) return known;
  const entry = await readEntry(namespace, key, signal);
  if (!entry) throw new Lost(`the entry ${name} is gone, or is still on its way from another host`);
  const { text } = await unwrapped(key, entry.value);
  if (SEALED.size >= MOST_SEALED) SEALED.delete(SEALED.keys().next().value);
  SEALED.set(place, text);
  return text;
}

async function joined(namespace, names, signal) {
  const parts = await Promise.all(names.map((name) => readText(namespace, name, signal)));
  return JSON.parse(parts.map((part) => part.slice(MARK.length)).join(""));
}

// document reads a value of any length, whose parts have names that begin alike.
async function documentOf(namespace, value, beginning, signal) {
  return isParts(value) ? joined(namespace, value.parts.map((name) => beginning + name), signal) : value;
}

// itemsOf is a segment's items: too long ones are in parts, and their place in the list is null.
async function itemsOf(namespace, name, { items, split = {} }, signal) {
  const all = [...items];
  for (const [i, names] of Object.entries(split)) all[i] = await joined(namespace, names.map((part) => `${name}.${part}`), signal);
  return all;
}

// follow puts older segments before what the entry has, up to a number of them. `cut` says that there are more.
async function follow(items, older, most) {
  let all = items;
  try {
    for (let n = 0; n < most; n++) {
      const earlier = await older(n);
      if (!earlier) return { items: all, cut: false };
      all = [...earlier, ...all];
    }
    return { items: all, cut: true };
  } catch (error) {
    if (!(error instanceof Lost)) throw error;
    return { items: all, cut: true, lost: error.message };
  }
}

async function readLog({ namespace }, name, head, most, signal) {
  let { previous } = head;
  return follow(await itemsOf(namespace, name, head, signal), async () => {
    if (previous == null) return null;
    const segment = JSON.parse(await readText(namespace, `${name}.${previous}`, signal));
    ({ previous } = segment);
    return itemsOf(namespace, name, segment, signal);
  }, most);
}

// readRecord reads the history of a conversation up to its head: other branches are left out.
async function readRecord({ namespace }, { record, segments, entries }, most, signal) {
  const { items, ...rest } = await follow(entries, async (n) => {
    if (n >= segments.length) return null;
    const value = JSON.parse(await readText(namespace, `entries.${segments.at(-1 - n)}`, signal));
    return documentOf(namespace, value, "part.", signal);
  }, most);
  const known = new Map(items.map((each) => [each.id, each]));
  const history = [];
  for (let each = known.get(record.head_id); each; each = known.get(each.parent_id)) {
    history.unshift(each.message);
    known.delete(each.id); // no circle keeps the page
  }
  return { items: history, ...rest };
}

// readChat is the items of an entry that is a chat in this form; null if it is none.
export async function readChat(entry, most, signal) {
  const { name, text } = await unwrapped(entry.key, entry.value);
  let value = parsed(text);
  if (isParts(value) && name.startsWith("conversation.")) value = await documentOf(entry.namespace, value, "part.", signal);
  if (isLog(value)) return readLog(entry, name, value, most, signal);
  if (isRecord(value)) return readRecord(entry, value, most, signal);
  return null;
}
