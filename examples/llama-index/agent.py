"""A LlamaIndex agent that remembers: its chat is in botwired.

    pip install -r requirements.txt
    python agent.py "Remember: the keys are under the mat"
    python agent.py "What do you remember?"

model.py stands for a model: put one of yours here, such as OpenAI(model="gpt-5").
"""

import sys

from botwired import Memory
from botwired.llama_index import MemoryChatStore
from llama_index.core.chat_engine import SimpleChatEngine
from llama_index.core.memory import ChatMemoryBuffer

from model import Model


def main(messages: list[str]) -> None:
    with Memory("llama-agent") as memory:
        store = MemoryChatStore(memory)
        agent = SimpleChatEngine.from_defaults(
            llm=Model(), memory=ChatMemoryBuffer.from_defaults(chat_store=store, chat_store_key="user-42")
        )
        for message in messages:
            print(agent.chat(message).response)


main(sys.argv[1:])
