"""A stand-in for a model. It keeps what begins with "Remember: " as fact-0001 and so on, and else recites the facts."""

import json
import re
from collections.abc import Iterator
from typing import Any

from crewai import BaseLLM


class Model(BaseLLM):
    def supports_function_calling(self) -> bool:
        return False  # it calls tools in text: Action, Action Input, Observation

    def call(self, messages: str | list[dict[str, Any]], *_: Any, **__: Any) -> str:
        assert isinstance(messages, list)
        told = re.findall(r"Remember: (.+)", next(said(messages, "user")))
        observed = [result for text in said(messages, "assistant") for result in text.split("Observation:")[1:]]
        if not told:
            return recite(observed[-1]) if observed else action("Search memories", text="fact-")
        if not observed:
            return action("List memories", prefix="fact-")
        if "Remembered under" in observed[-1]:  # what is wrong with the memory may stand before it
            return final("I will remember that.")
        number = len(re.findall(r"'fact-\d+'", observed[-1])) + 1
        return action("Remember", key=f"fact-{number:04}", value=told[-1])


def said(messages: list[dict[str, Any]], role: str) -> Iterator[str]:
    return (str(message["content"]) for message in messages if message["role"] == role)


def recite(found: str) -> str:
    facts = sorted(re.findall(r"(fact-\d+): (.+)", found))
    return final(f"I remember: {'; '.join(fact for _, fact in facts)}")


def action(tool: str, **arguments: str) -> str:
    return f"Thought: I use a tool.\nAction: {tool}\nAction Input: {json.dumps(arguments)}"


def final(answer: str) -> str:
    return f"Thought: I am done.\nFinal Answer: {answer}"
