// Scenarios of a person who reads what agents have written: the keys of the Python package, and its chats.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";

const VECTORS = JSON.parse(readFileSync(join(import.meta.dirname, "../../clients/python/tests/names.json"), "utf8"));
const ENTRY = "shop/_.customer.3A8";

// The page's own escape is the Python package's, and what is no escape stays as it is.
export async function keysAreThePythonPackages({ daemon, visit }) {
  await visit.go(daemon.url);
  const wrong = await visit.page.evaluate(async ([{ keys, foreign_keys: foreign }, file]) => {
    const { isKey, pythonKey, pythonName, shownKey, wireKey } = await import(file);
    const wrong = [];
    for (const { name, wire } of keys) {
      const shown = isKey(name) || wire.startsWith("_-") ? wire : name;
      if (shownKey(wire) !== shown || (shown === name && wireKey(name) !== wire) || wireKey(shown) !== wire) wrong.push([name, wire, shownKey(wire), wireKey(name)]);
      if (await pythonKey(name) !== wire || pythonName(wire) !== (wire.startsWith("_-") ? null : name)) wrong.push([name, wire, await pythonKey(name), pythonName(wire)]);
    }
    for (const key of foreign) if (shownKey(key) !== key || wireKey(key) !== key) wrong.push([key, shownKey(key)]);
    return wrong;
  }, [VECTORS, `${daemon.url}/_botwired/assets/keys.js`]);
  assert.deepEqual(wrong, []);
}

// A key of the Python package is shown as that has it, found by its beginning, and taken so.
export async function keysAreDecoded({ daemon, visit }) {
  const { page } = visit;
  await daemon.write(ENTRY, "eight");
  await daemon.write("shop/_.customer.3a9", "no escape");
  await daemon.write("shop/other", "1");
  await daemon.flush();
  await visit.go(daemon.url);
  await page.locator('.write .key:text-is("customer:8")').waitFor();
  await visit.go(daemon.url, "memory/shop/customer:8"); // as a person would type it
  await visit.shows(".value h2", /^shop\/customer:8$/);
  await visit.shows(".details", "_.customer.3A8");
  await visit.shows("pre.text", "eight");
  await visit.shows(".entries .name", /^_\.customer\.3a9$/);
  for (const [beginning, found] of [["cust", ["customer:8"]], ["customer:", ["customer:8"]], ["_.cust", ["_.customer.3a9", "customer:8"]], ["o", ["other"]]]) {
    await page.getByLabel("Find keys that begin with").fill(beginning);
    await page.waitForFunction((n) => document.querySelectorAll(".entries .rows li").length === n, found.length);
    assert.deepEqual((await page.locator(".entries .name").allInnerTexts()).sort(), found);
  }
  await visit.click("History");
  await visit.shows("dialog h2", "History of shop/customer:8");
  await page.keyboard.press("Escape");
  await visit.click("New entry");
  await page.getByLabel("Key", { exact: true }).fill("customer:9");
  await visit.shows("dialog", "_.customer.3A9");
  await page.getByLabel("Value", { exact: true }).fill("nine");
  await visit.click("Write");
  await visit.shows(".value h2", /^shop\/customer:9$/);
  assert.equal(await daemon.read("shop/_.customer.3A9"), "nine");
}

const human = (content) => ({ type: "human", data: { content, type: "human" } });
const ai = (content) => ({ type: "ai", data: { content, type: "ai" } });
const log = (write, more) => JSON.stringify({ botwired: "log", write, ...more });

const CHATS = {
  // LangChain's: the head, two older segments, and an item in parts. The session is "user 42".
  "_.user.2042": log("1", { before: 3, previous: "b2", items: [human("Fifth: and step five?"), ai("Sixth: last.")] }),
  "_.user.2042.2Eb2": JSON.stringify({ before: 2, previous: "a1", items: [null, human("Fourth: thanks.")], split: { 0: ["c3", "c4"] } }),
  "_.user.2042.2Ea1": JSON.stringify({ before: 0, items: [human("First: hello."), ai("Second: hello to you.")] }),
  "_.user.2042.2Ec3": `=${JSON.stringify(ai(`Third: ${"long ".repeat(20)}`)).slice(0, 40)}`,
  "_.user.2042.2Ec4": `=${JSON.stringify(ai(`Third: ${"long ".repeat(20)}`)).slice(40)}`,
  // The OpenAI Agents SDK's.
  "agents-1": log("2", { before: 0, items: [
    { role: "user", content: "What is the weather?" }, { type: "function_call", name: "get_weather", arguments: "{}", call_id: "1" },
    { type: "function_call_output", call_id: "1", output: "rain" }, { type: "message", role: "assistant", content: [{ type: "output_text", text: "It rains." }] },
    { type: "web_search_call", id: "7" },
  ] }),
  // LlamaIndex's.
  "_..2Fchats.2Fu.2F": log("3", { before: 0, items: [
    { role: "user", additional_kwargs: {}, blocks: [{ block_type: "text", text: "Remember the milk." }] },
    { role: "assistant", additional_kwargs: {}, blocks: [{ block_type: "text", text: "I shall." }] },
  ] }),
  // Pydantic AI's, with a segment.
  "conversation.user-42": JSON.stringify({ record: { conversation_id: "user-42", head_id: "m2" }, segments: ["5f"], entries: [
    { id: "m2", parent_id: "m1", kind: "message", message: { kind: "response", parts: [{ part_kind: "thinking", content: "hm" }, { part_kind: "text", content: "Paris." }, { part_kind: "tool-call", tool_name: "save", args: {} }] } },
    { id: "x2", parent_id: "m1", kind: "message", message: { kind: "response", parts: [{ part_kind: "text", content: "Another branch." }] } },
  ] }),
  "entries.5f": JSON.stringify([{ id: "m1", parent_id: null, kind: "message", message: { kind: "request", parts: [{ part_kind: "system-prompt", content: "Be brief." }, { part_kind: "user-prompt", content: "Capital of France?" }] } }]),
  "lost-1": log("4", { before: 9, previous: "gone", items: [human("Only this is left.")] }),
};

export const furnishChats = async (daemon, namespace) => {
  for (const [key, value] of Object.entries(CHATS)) await daemon.write(`${namespace}/${key}`, value);
};

export async function chatsAreConversations({ daemon, visit }) {
  const { page } = visit;
  visit.expect(/404 .*lost-1\.gone/);
  await furnishChats(daemon, "own-chats");
  for (const [key, speakers, texts] of [
    ["_.user.2042", ["user", "assistant", "assistant", "user", "user", "assistant"], ["First: hello.", "Second: hello to you.", /^Third: (long ?){20}$/, "Fourth: thanks.", "Fifth: and step five?", "Sixth: last."]],
    ["agents-1", ["user", "assistant", "tool", "assistant", "tool"], ["What is the weather?", "calls get_weather", "rain", "It rains.", /web_search_call/]],
    ["_..2Fchats.2Fu.2F", ["user", "assistant"], ["Remember the milk.", "I shall."]],
    ["conversation.user-42", ["user", "assistant"], [/^Be brief\.\s+Capital of France\?$/, /^Paris\.\s+calls save$/]],
    ["lost-1", ["user"], ["Only this is left."]],
  ]) {
    await visit.go(daemon.url, `memory/own-chats/${key}`);
    await page.locator(".conversation li").nth(texts.length - 1).waitFor();
    assert.deepEqual(await page.locator(".conversation li").evaluateAll((all) => all.map((e) => e.className)), speakers, key);
    const shown = await page.locator(".conversation li").evaluateAll((all) => all.map((e) => [...e.querySelectorAll("p")].map((p) => p.textContent).join(" ")));
    texts.forEach((text, i) => assert.match(shown[i].trim(), text instanceof RegExp ? text : new RegExp(`^${text.replace(/[?.]/g, "\\$&")}$`)));
  }
  await visit.shows(".value-view .note", "What was said before cannot be read: the entry lost-1.gone is gone");
  await visit.go(daemon.url, "memory/own-chats/agents-1"); // a new message shows at once
  await page.locator(".conversation li").nth(4).waitFor();
  await daemon.write("own-chats/agents-1", log("5", { before: 0, items: [{ role: "user", content: "And tomorrow?" }] }));
  await visit.shows(".conversation", "And tomorrow?");
  await visit.click("JSON");
  await visit.shows(".json", '"botwired"');
}

// On a phone, namespace and key are whole, however long they are.
export async function namesAreWholeOnAPhone({ daemon, visit }) {
  const { page } = visit;
  const [namespace, key] = ["research-agent-of-the-planning-team-in-europe", "user_name.of.the.customer.who.came.first-and-then-left"];
  await daemon.write(`${namespace}/${key}`, "13 bytes here", "a-researcher-with-a-name");
  await page.setViewportSize({ width: 390, height: 844 });
  for (const place of ["", "memory", `memory/${namespace}`]) {
    await visit.go(daemon.url, place);
    await page.getByText(place.includes("/") ? key : namespace, { exact: true }).first().waitFor();
    const cut = await page.locator(":is(.entry, .entry span, .rows .name)").evaluateAll((all) => all.filter((e) => e.offsetParent)
      .filter((e) => e.scrollWidth > e.clientWidth + 1 && getComputedStyle(e).display !== "inline" && getComputedStyle(e).overflow !== "visible").map((e) => e.textContent));
    assert.deepEqual(cut, [], place);
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
    assert.ok(wide <= 0, `${place} is ${wide} pixels too wide`);
  }
}

// Where no namespace has a quota, nothing takes its place; what is sealed upstream is said in the entry, too.
export async function noQuotaNoCard({ daemon, visit }) {
  await daemon.write("quota/entry", "1");
  const status = await daemon.status();
  await visit.page.route(/\/_botwired\/status/, (route) => route.fulfill({ json: { ...status, namespaces: status.namespaces.map((n) => ({ ...n, quota: null })) } }));
  await visit.go(daemon.url);
  await visit.shows(".tile", /Upstream writes saved\s*[\d,]+\s*of [\d,]+ writes? since the start: newer ones replaced them/);
  assert.equal(await visit.page.locator(".quotas").count(), 0);
}
