"""A history that is one value, for the tests: each message reads it and writes it back. Python's own library is enough."""
import json
import os
import sys
import time
import urllib.error
import urllib.request

URL = os.environ["BOTWIRE_URL"] + "/memory/conversation/conversation"


def read():
    try:
        with urllib.request.urlopen(URL) as answer:
            return json.loads(json.load(answer)["value"])
    except urllib.error.HTTPError as e:
        if e.code != 404:
            raise
        return []


def main(messages, think):
    began = time.monotonic()
    for number in range(messages):
        time.sleep(think)
        body = json.dumps({"value": json.dumps([*read(), f"message {number}"])}).encode()
        request = urllib.request.Request(URL, body, {"Content-Type": "application/json"}, method="PUT")
        urllib.request.urlopen(request).close()
    wall = time.monotonic() - began
    print(json.dumps({"adapter": "whole", "versions": "none 1", "wall": wall, "slowest": wall, "messages": len(read())}))


main(int(sys.argv[1]), float(sys.argv[2]))
