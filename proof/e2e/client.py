"""What agents do with BotWire's own Python client, checked step by step.

Started by proof/e2e/run with BOTWIRE_URL set to the daemon. Every scenario is a generator in three parts:
the first half, the second half, and a last look. After a part this program prints `PART` and waits for
a line on stdin; at the end it prints `STORED` and, as JSON, what upstream must hold. With the argument
`outage`, upstream is down during the second half. Checks are reported as `ok NAME` or `not ok NAME`.
"""
import json
import os
import socket
import sys
import time

import httpx
from botwire import BotWireChatHistory, Memory
from langchain_core.messages import AIMessage, HumanMessage

resolve = socket.getaddrinfo
# In place of the name server of a compose project.
socket.getaddrinfo = lambda host, *rest, **more: resolve("127.0.0.1" if host in (SERVICE, SERVICE.encode()) else host, *rest, **more)
SERVICE = os.environ["E2E_SERVICE"]
OUTAGE = "outage" in sys.argv[1:]
MISSING = object()

STRINGS = {
    "empty": "", "plain": "Pedro", "spaces": "  two  words ", "quotes": 'say "hi" \\ \'there\'',
    "controls": "tab\tline\nreturn\r\x01\x1f\x7f", "number-like": "0042", "null-like": "null",
    "bracket": "[not json", "brace": "{", "longest": "x" * 100_000, "longest.emoji": "\U0001f600" * 100_000,
    "path": "../../etc/passwd?x=1#y %2F %00",
}
DICTS = {
    "empty-dict": {}, "nested": {"b": [1, {"c": None}], "a": {"deep": {"deeper": [True, False]}}},
    "numbers": {"big": 2**70, "small": 1e-7, "negative": -0.5}, "unicode-dict": {"schl\u00fcssel": "\U0001f511", "\u2028": "\x00"},
}
LISTS = {
    "empty-list": [], "deep-list": [1, [2, [3, [None, "four"]]]], "long-list": list(range(2000)),
    "messages": [{"role": "user", "content": f"message {i}"} for i in range(50)],
}
UNICODE = {
    "emoji": "\U0001f469\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466 \U0001f1f5\U0001f1f9 \u2764\ufe0f",
    "combining": "e\u0301 and \u00e9 are not the same", "separators": "a\u2028b\u2029c\u0085d",
    "NUL": "before\x00after", "only-NUL": "\x00", "BOM": "\ufeffx\ufeff", "last": "\uffff\U0010ffff\ufffd",
    "right-to-left": "\u05e9\u05dc\u05d5\u05dd \u202eabc", "mixed.Key_1-": "\u65e5\u672c\u8a9e\u306e\u8a18\u61b6",
}
# What is neither a string nor a container comes back as the client's JSON text.
OTHERS = {"int": (5, "5"), "true": (True, "true"), "none": (None, "null"), "float": (1.5, "1.5")}

stored = {}  # namespace -> key -> text: what upstream must hold in the end


def check(name, got, want):
    if got == want:
        print(f"ok {name}")
        return
    print(f"not ok {name}\n    got  {shortened(got)}\n    want {shortened(want)}")


def shortened(value):
    text = ascii(value)
    return text if len(text) <= 300 else f"{text[:140]} ... {text[-140:]} ({len(text)} characters)"


def text_of(value):
    return value if isinstance(value, str) else json.dumps(value)


class Checked:
    """A namespace, and what it must hold."""

    def __init__(self, namespace):
        self.namespace = namespace
        self.memory = Memory(namespace)
        self.texts = stored.setdefault(namespace, {})
        self.values = {}

    def set(self, key, value, reads_as=MISSING):
        self.memory.set(key, value)
        self.texts[key] = text_of(value)
        self.values[key] = value if reads_as is MISSING else reads_as

    def set_all(self, values):
        for key, value in values.items():
            self.set(key, value)

    def delete(self, key):
        was_there = self.texts.pop(key, None) is not None
        self.values.pop(key, None)
        check(f"{self.namespace}: delete {key}", self.memory.delete(key), was_there)

    def look(self, what, gone=()):
        """Compares everything, through a client that has just been made."""
        memory, name = Memory(self.namespace), f"{self.namespace}, {what}"
        differing = {key: memory.get(key) for key, want in self.values.items() if memory.get(key) != want}
        check(f"{name}: get of {len(self.values)} keys", differing, {})
        check(f"{name}: in", [key for key in self.values if self.values[key] is not None and key not in memory], [])
        check(f"{name}: deleted keys get their default", [memory.get(key, "default") for key in gone], ["default"] * len(gone))
        check(f"{name}: deleted keys are not in", [key for key in gone if key in memory], [])
        # The service counts characters up to the first NUL.
        want = {key: len(text.partition("\x00")[0]) for key, text in self.texts.items()}
        check(f"{name}: keys and their sizes", {k["key"]: k["bytes"] for k in memory.keys()}, want)


def values(namespace, first):
    """Every kind of value set, read, overwritten, deleted and set anew."""
    ns = Checked(namespace)
    ns.set_all(first)
    for key in ("gone-1", "gone-2", "gone-3"):
        ns.set(key, "to be deleted")
    ns.delete("gone-1")
    ns.look("first half", gone=["gone-1"])
    yield
    names = list(first)
    ns.delete("gone-2")
    ns.set("gone-1", "back again")
    ns.delete("gone-1")
    for key in names[::2]:  # each other's values, and a key that is new
        ns.set(key, "overwritten")
        ns.set(key, first[names[-1]])
        ns.set("new." + key, first[key])
    ns.delete(names[0])
    ns.set(names[0], first[names[0]])
    gone = ["gone-1", "gone-2"]
    if len(names) > 2:
        ns.delete(names[1])
        gone.append(names[1])
    ns.set("short-lived", "x")
    ns.delete("short-lived")
    gone.append("short-lived")
    ns.look("second half", gone)
    yield
    ns.look("afterwards", gone)


def others():
    ns = Checked("py-others")
    for key, (value, reads_as) in OTHERS.items():
        ns.set(key, value, reads_as)
    ns.set("json-text", '{"a": [1, 2]}', {"a": [1, 2]})  # the client decodes what looks like JSON
    ns.look("first half")
    yield
    ns.set("json-text", '{"a": [1, 2', '{"a": [1, 2')
    ns.set("int", 6, "6")
    ns.look("second half")
    yield
    ns.look("afterwards")


def unknown():
    """What nobody has written, and what is refused."""
    ns = Checked("py-unknown")
    ns.set("known", "x")
    ns.look("first half")
    check("py-unknown: get without a default", ns.memory.get("never-1"), None)
    check("py-unknown: get with a default", ns.memory.get("never-1", {"a": 1}), {"a": 1})
    check("py-unknown: not in", "never-1" in ns.memory, False)
    check("py-unknown: delete", ns.memory.delete("never-1"), False)
    check("py-unknown: too long", status(ns.memory.set, "known", "x" * 100_001), 400)
    check("py-unknown: bad key", status(ns.memory.set, "k!", "x"), 400)
    yield
    # Upstream's last listing of the namespace lacks it. Of a namespace that nobody has listed, nobody can
    # know, while upstream is down, what it holds: an answer would be a guess.
    check("py-unknown: get of what was never asked for", status(ns.memory.get, "never-2"), None)
    check("py-unlisted: get of what was never asked for", status(Memory("py-unlisted-2").get, "never"), 503 if OUTAGE else None)
    check("py-unknown: delete of what the listing lacks", ns.memory.delete("never-3"), False)
    unlisted = Memory("py-unlisted")
    check("py-unlisted: delete of what was never asked for", unlisted.delete("never"), OUTAGE)
    check("py-unlisted: it is deleted", unlisted.get("never", "default"), "default")
    check("py-unknown: too long", status(ns.memory.set, "known", "x" * 100_001), 400)
    ns.look("second half")
    yield
    ns.look("afterwards", gone=["never-1", "never-2", "never-3"])


def status(call, *args):
    """The HTTP status that the client fails with, or what it returns."""
    try:
        return call(*args)
    except httpx.HTTPStatusError as e:
        return e.response.status_code


def listed(namespace):
    """Wait until the daemon has listed a namespace in use by itself, which it does a moment after the first use."""
    for _ in range(200):
        answer = httpx.get(f"{os.environ['BOTWIRE_URL']}/memory/{namespace}", headers={"Cache-Control": "only-if-cached, max-stale"})
        if answer.status_code != 504:
            break
        time.sleep(0.05)
    check(f"{namespace}: listed", answer.status_code, 200)


def history():
    """A conversation of 200 messages, each of which reads and writes all of them."""
    session, namespace = "conversation", "py-history"
    said = [(HumanMessage if i % 2 == 0 else AIMessage)(f"message {i}: \u00e9 \U0001f600 \u2028 \"quoted\"") for i in range(200)]
    talk, brief = BotWireChatHistory(session, namespace), BotWireChatHistory("brief", namespace)

    def heard(count):
        read = BotWireChatHistory(session, namespace).messages
        check(f"{namespace}: {count} messages", [(m.type, m.content) for m in read], [(m.type, m.content) for m in said[:count]])

    check(f"{namespace}: new", talk.messages, [])
    for i in range(100):
        talk.add_message(said[i])
        if i + 1 in (1, 50, 100):
            heard(i + 1)
    brief.add_message(said[0])
    listed(namespace)
    yield
    for i in range(100, 200):
        talk.add_message(said[i])
        if i + 1 in (101, 150, 200):
            heard(i + 1)
    brief.clear()
    check(f"{namespace}: cleared", brief.messages, [])
    late = BotWireChatHistory("late", namespace)  # a conversation that begins in the outage
    check(f"{namespace}: late, new", late.messages, [])
    for message in said:
        late.add_message(message)
    check(f"{namespace}: late, 200 messages", [m.content for m in late.messages], [m.content for m in said])
    yield
    heard(200)
    check(f"{namespace}: late, still 200 messages", [m.content for m in late.messages], [m.content for m in said])
    check(f"{namespace}: still cleared", brief.messages, [])
    stored[namespace] = {session: expected_history(said), "late": expected_history(said)}


def expected_history(messages):
    from langchain_core.messages import messages_to_dict
    return json.dumps(messages_to_dict(messages))


def main():
    sys.stdout.reconfigure(encoding="utf-8", line_buffering=True)
    scenarios = [
        values("py-strings", STRINGS), values("py-dicts", DICTS), values("py-lists", LISTS), values("py-unicode", UNICODE),
        others(), unknown(), history(),
    ]
    for part in range(3):
        for scenario in scenarios:
            next(scenario, None)
        if part < 2:
            print("PART")
            sys.stdin.readline()
    print("STORED", json.dumps(stored))


main()
