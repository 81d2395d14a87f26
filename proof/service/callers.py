"""Eight callers at work, until SIGTERM: BotWire's own client and requests, on connections that they keep.

    callers.py URL UPSTREAM NAME

They retry nothing. Each caller remembers which of its writes were acknowledged. At the end, all of these must
be readable here and, after a flush, upstream. The exit code is 0 if nobody was refused and nothing is lost.
"""
import json
import random
import signal
import sys
import threading
import time

sys.path.insert(0, "/opt/botwire")
import requests
from botwire import Memory

URL, UPSTREAM, NAME = sys.argv[1:]
ended = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: ended.set())


class WithRequests:
    """The two calls of Memory that the callers need, by requests."""

    def __init__(self, namespace, url):
        self.base, self.session = f"{url}/memory/{namespace}/", requests.Session()

    def set(self, key, value):
        self.session.put(self.base + key, json={"value": json.dumps(value)}, timeout=30).raise_for_status()

    def get(self, key):
        answer = self.session.get(self.base + key, timeout=30)
        answer.raise_for_status()
        return json.loads(answer.json()["value"])


class Caller(threading.Thread):
    def __init__(self, number):
        super().__init__()
        self.namespace, self.sdk = f"{NAME}-{number}", number % 2 == 0
        self.acknowledged, self.errors, self.calls, self.slowest = {}, [], 0, 0.0

    def client(self, url):
        return Memory(self.namespace, base_url=url) if self.sdk else WithRequests(self.namespace, url)

    def run(self):
        client, number = self.client(URL), 0
        while not ended.is_set() and len(self.errors) < 5:
            number += 1
            key = f"k{random.randrange(100)}"
            begun = time.monotonic()
            try:
                client.set(key, {"number": number})
                self.acknowledged[key] = {"number": number}
                read = random.choice(list(self.acknowledged))
                if (value := client.get(read)) != self.acknowledged[read]:
                    self.errors.append(f"{read} has {value}, and {self.acknowledged[read]} was acknowledged")
            except Exception as error:
                self.errors.append(f"{type(error).__name__}: {error}")
            self.calls += 2
            self.slowest = max(self.slowest, time.monotonic() - begun)
            time.sleep(0.01)

    def lost(self, url):
        client = self.client(url)
        return [f"{self.namespace}/{key}" for key, value in self.acknowledged.items() if client.get(key) != value]


callers = [Caller(number) for number in range(8)]
for caller in callers:
    caller.start()
for caller in callers:
    caller.join()
errors = [f"{caller.namespace}: {error}" for caller in callers for error in caller.errors]
if not errors:
    errors += [f"{key} is lost here" for caller in callers for key in caller.lost(URL)]
    requests.post(f"{URL}/_botwired/flush?timeout=20s&now=true", timeout=30).raise_for_status()
    errors += [f"{key} is lost upstream" for caller in callers for key in caller.lost(UPSTREAM)]
if not all(caller.acknowledged for caller in callers):
    errors.append("a caller has no acknowledged write")
print(f"{sum(caller.calls for caller in callers)} calls, the slowest two took {max(caller.slowest for caller in callers):.2f} s, {len(errors)} failed")
print(*errors[:10], sep="\n", end="")
sys.exit(bool(errors))
