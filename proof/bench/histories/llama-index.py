"""botwired.llama_index: a chat store."""
from botwired import Memory
from botwired.llama_index import MemoryChatStore
from driver import CONVERSATION, main
from llama_index.core.llms import ChatMessage


def conversation():
    store = MemoryChatStore(Memory(CONVERSATION))

    def say(number, text):
        assert len(store.get_messages(CONVERSATION)) == number
        store.add_message(CONVERSATION, ChatMessage(role="assistant" if number % 2 else "user", content=text))

    return say, lambda: len(store.get_messages(CONVERSATION))


main("LlamaIndex: `botwired.llama_index`", ["llama-index-core"], conversation)
