"""A conversation, as BotWire's class for LangChain keeps it: each message reads the whole history and writes it back.

    conversation.py MESSAGES PAUSE

The memory is at BOTWIRE_URL. This program prints "start" and, after each message, a line of JSON: when it began and
ended, in seconds since the start, and why it failed. After the PAUSEth message it prints "pause", and goes on when a line
comes on its standard input.
"""
import json
import sys
import time

import httpx
from botwire import BotWireChatHistory
from langchain_core.messages import AIMessage, HumanMessage

TEXT = "The train to Lisbon leaves at seven in the evening, and I would like a seat at the window, please: number {}."


def main():
    messages, pause = int(sys.argv[1]), int(sys.argv[2])
    history = BotWireChatHistory(session_id="conversation", namespace="conversation")
    print('"start"', flush=True)
    start = time.monotonic()
    for number in range(messages):
        if pause and number == pause:
            print('"pause"', flush=True)
            sys.stdin.readline()
        kind = AIMessage if number % 2 else HumanMessage
        began, error = time.monotonic(), ""
        try:
            history.add_message(kind(content=TEXT.format(number)))
        except httpx.HTTPError as e:
            error = str(e) or type(e).__name__
        ended = time.monotonic()
        print(json.dumps({"begin": began - start, "end": ended - start, "error": error}), flush=True)


main()
