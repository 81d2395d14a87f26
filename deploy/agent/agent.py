"""An agent that does as little as an agent can: it remembers how often it was started, and keeps a diary.

It stands for yours in deploy/compose.yaml, deploy/kubernetes and deploy/e2b. It uses BotWire's own SDK, which
takes the address of the memory, and the token, from BOTWIRE_URL. On SIGTERM it writes its last entry and ends.
"""
import os
import signal
import sys
import threading

from botwire import Memory

memory = Memory(os.environ.get("AGENT_NAMESPACE", "diary"))
ended = threading.Event()
for number in (signal.SIGTERM, signal.SIGINT):
    signal.signal(number, lambda *_: ended.set())

starts = int(memory.get("starts") or 0) + 1
memory.set("starts", starts)
print(f"started {starts} times", flush=True)

entry = 0
while not ended.wait(float(os.environ.get("AGENT_PAUSE", "1"))):
    entry += 1
    memory.set("diary", f"start {starts}, entry {entry}")
    if entry == int(os.environ.get("AGENT_ENTRIES", "0")):
        break

memory.set("last", f"start {starts} ended after {entry} entries")
print(f"ended after {entry} entries", flush=True)
sys.exit(0)
