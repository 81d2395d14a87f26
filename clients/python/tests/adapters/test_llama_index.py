from __future__ import annotations

import asyncio
import random
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from conftest import Server
from llama_index.core import Document, SummaryIndex, load_index_from_storage
from llama_index.core.llms import ChatMessage, ImageBlock, TextBlock
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.schema import TextNode
from llama_index.core.storage import StorageContext
from llama_index.core.storage.chat_store import BaseChatStore, SimpleChatStore
from llama_index.core.storage.docstore.keyval_docstore import KVDocumentStore
from llama_index.core.storage.index_store.keyval_index_store import KVIndexStore
from llama_index.core.storage.kvstore import SimpleKVStore
from llama_index.core.storage.kvstore.types import BaseKVStore

from botwired import Memory
from botwired.llama_index import MemoryChatStore, MemoryKVStore

KEYS = ["a", "a/b", "b:c", "ß" * 90, ".."]
COLLECTIONS = ["data", "data:a", "docstore/data", "%3A"]


async def test_a_key_value_store_does_what_llama_indexs_own_does(memory: Memory) -> None:
    dice = random.Random(5)
    stores: list[BaseKVStore] = [SimpleKVStore(), MemoryKVStore(memory)]
    for number in range(100):
        key, collection = dice.choice(KEYS), dice.choice(COLLECTIONS)
        value = {"number": number, "text": "x" * dice.choice([1, 20, 250_000 if number % 10 == 0 else 3]), "none": None}
        match number % 5:
            case 0:
                for store in stores:
                    store.put(key, value, collection)
            case 1:
                for store in stores:
                    await store.aput(key, value, collection)
            case 2:
                assert len({store.delete(key, collection) for store in stores}) == 1
            case 3:
                assert len({await store.adelete(key, collection) for store in stores}) == 1
            case 4:
                pairs = [(key, {"of": key, "at": number}) for key in dice.sample(KEYS, 3)]
                stores[0].put_all(pairs, collection)
                if number % 2:
                    stores[1].put_all(pairs, collection, batch_size=4)
                else:
                    await stores[1].aput_all(pairs, collection)
        assert stores[0].get(key, collection) == stores[1].get(key, collection) == await stores[1].aget(key, collection)
        if number % 9 == 0:
            for collection in COLLECTIONS:
                want = stores[0].get_all(collection)
                assert stores[1].get_all(collection) == want
                assert await stores[1].aget_all(collection) == want
    for collection in COLLECTIONS:
        for key in KEYS:
            stores[1].delete(key, collection)
    assert memory.list_keys() == [], "nothing stays of deleted values"


def test_an_index_comes_back_in_another_process(memory: Memory) -> None:
    def storage() -> StorageContext:
        kept = MemoryKVStore(memory)  # as a new process has it
        return StorageContext.from_defaults(docstore=KVDocumentStore(kept), index_store=KVIndexStore(kept))

    nodes = [TextNode(text=f"fact {number}", id_=f"node-{number}") for number in range(5)]
    index = SummaryIndex(nodes, storage_context=storage())
    index.insert(Document(text="the sixth", id_="document"))
    found = load_index_from_storage(storage())
    texts = [node.get_content() for node in found.docstore.get_nodes(found.index_struct.nodes)]
    assert texts == [*(f"fact {number}" for number in range(5)), "the sixth"]
    assert list(found.ref_doc_info) == ["document"]


def test_a_chat_store_does_what_llama_indexs_own_does(memory: Memory) -> None:
    dice = random.Random(3)
    stores: list[Any] = [SimpleChatStore(), MemoryChatStore(memory)]
    assert isinstance(stores[1], BaseChatStore)
    keys = ["user", "user/.0123456789abcdef", "ß" * 90]
    for number in range(120):
        key = dice.choice(keys)
        there = len(stores[0].get_messages(key))
        message = ChatMessage(
            role="user", content=f"{number} " + "x" * dice.randrange(20_000), additional_kwargs={"n": number}
        )
        match dice.choice(["add", "add", "add", "insert", "set", "delete", "last", "chat", "again"]):
            case "add":
                for store in stores:
                    store.add_message(key, message)
            case "insert":
                place = dice.randrange(-3, there + 3)
                for store in stores:
                    store.add_message(key, message, idx=place)
            case "set" if dice.random() < 0.3:
                messages = [message] * dice.randrange(1, 9)
                for store in stores:
                    store.set_messages(key, list(messages))
            case "delete":
                place = dice.randrange(there + 2)
                assert stores[0].delete_message(key, place) == stores[1].delete_message(key, place)
            case "last" if there:
                assert stores[0].delete_last_message(key) == stores[1].delete_last_message(key)
            case "chat" if dice.random() < 0.3:
                assert (stores[0].delete_messages(key) or None) == stores[1].delete_messages(key)
            case "again":
                stores[1] = MemoryChatStore(memory)
        for key in keys:
            assert stores[0].get_messages(key) == stores[1].get_messages(key)
        assert (
            {key for key in stores[0].get_keys() if stores[0].get_messages(key)}
            <= set(stores[1].get_keys())
            <= set(keys)
        )
    assert stores[1].delete_last_message("nobody") is None
    assert stores[1].delete_messages("nobody") is None
    for key in keys:
        stores[1].delete_messages(key)
    assert memory.list_keys() == [], "nothing stays of deleted chats"


def test_a_chat_whose_messages_are_gone_can_be_deleted(memory: Memory) -> None:
    store = MemoryChatStore(memory)
    store.add_message("chat", ChatMessage(content="only"))
    assert store.delete_last_message("chat") == ChatMessage(content="only")
    assert store.get_keys() == ["chat"]
    assert store.delete_messages("chat") is None
    assert memory.list_keys() == []


def test_a_chat_buffer_keeps_its_messages(memory: Memory) -> None:
    picture = ChatMessage(role="user", blocks=[TextBlock(text="what?"), ImageBlock(image=b"\x89PNG" * 40_000)])
    for number in range(3):
        store = MemoryChatStore(memory)  # as a new process has it
        buffer = ChatMemoryBuffer.from_defaults(chat_store=store, chat_store_key="user:42", token_limit=10**9)
        buffer.put(ChatMessage(role="assistant", content=f"message {number}"))
    buffer.put(picture)
    assert [m.content for m in buffer.get_all()] == ["message 0", "message 1", "message 2", "what?"]
    assert MemoryChatStore(memory).get_messages("user:42")[-1] == picture


def test_threads_and_tasks_lose_no_message(daemon: Server, namespace: str) -> None:
    with Memory(namespace, daemon.url) as memory:
        stores = [MemoryChatStore(memory) for _ in range(2)]
        with ThreadPoolExecutor(4) as pool:
            for number in range(20):
                pool.submit(stores[number % 2].add_message, "chat", ChatMessage(content=str(number)))

        async def more() -> None:
            await asyncio.gather(
                *(stores[0].async_add_message("chat", ChatMessage(content=str(n))) for n in range(20, 40))
            )

        asyncio.run(more())
        assert {m.content for m in stores[1].get_messages("chat")} == {str(number) for number in range(40)}


def test_stores_share_a_namespace(memory: Memory) -> None:
    chats, values = MemoryChatStore(memory), MemoryKVStore(memory)
    chats.add_message("data", ChatMessage(content="hello"))
    values.put("chats", {"a": "b" * 200_000})
    assert chats.get_keys() == ["data"]
    assert list(values.get_all()) == ["chats"]


def test_a_value_that_looks_like_one_in_parts(memory: Memory) -> None:
    store = MemoryKVStore(memory)
    for parts in [[], ["x"], [1], "x", None]:
        value = {"botwired": "parts", "parts": parts}
        store.put("k", value)
        assert store.get("k") == value
    store.put("k", {"botwired": "parts"})
    assert store.get("k") == {"botwired": "parts"}
