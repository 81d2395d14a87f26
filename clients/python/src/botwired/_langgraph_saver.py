"""LangGraph's checkpoint saver: the last checkpoint of a thread, or the last few, in one entry."""

from __future__ import annotations

import base64
import zlib
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    get_checkpoint_id,
    get_checkpoint_metadata,
    writes_sort_key,
)
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from typing_extensions import override

from botwired import AsyncMemory, Memory
from botwired._langgraph_threads import Fields, Threads
from botwired._port import Runner


class CheckpointSaver(BaseCheckpointSaver[int]):
    """The last checkpoints of any number of threads, for any number of processes at once.

    `keep` says how many checkpoints of a thread there are. With 1, a graph goes on after an interrupt or a crash, and
    remembers; with more, it can also go back to one of them. A thread is one entry however many steps it takes, so a
    higher number costs bytes and no writes. If an entry has no room for all of them, some 300, the oldest go.

    BotWire asks nobody who they are: a stranger who knows the namespace can write a checkpoint. LangGraph's own default
    would import and call whatever function that names. So this saver makes objects of LangGraph's safe types only. A
    value of another class reads as plain data, and LangGraph logs its name: pass
    `serde=JsonPlusSerializer(allowed_msgpack_modules=[MyClass])`.

    DeltaChannel, whose values are spread over all checkpoints, is refused.
    """

    def __init__(self, memory: Memory | AsyncMemory, *, keep: int = 1, serde: SerializerProtocol | None = None) -> None:
        super().__init__(serde=serde or JsonPlusSerializer(allowed_msgpack_modules=None))
        if keep < 1:
            raise ValueError(f"keep is {keep}: it must be 1 or more")
        self._keep = keep
        self._runner = Runner(memory)
        self._threads = Threads(self._runner.port)

    # --- blocking

    @override
    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        return self._runner.run(self._get_tuple(config))

    @override
    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        yield from self._runner.run(self._list(config, filter, before, limit))

    @override
    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        return self._runner.run(self._put(config, checkpoint, metadata))

    @override
    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        self._runner.run(self._put_writes(config, writes, task_id, task_path))

    @override
    def delete_thread(self, thread_id: str) -> None:
        self._runner.run(self._threads.delete(thread_id))

    # --- asynchronous

    @override
    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        return await self._runner.arun(self._get_tuple(config))

    @override
    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        for found in await self._runner.arun(self._list(config, filter, before, limit)):
            yield found

    @override
    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        return await self._runner.arun(self._put(config, checkpoint, metadata))

    @override
    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        await self._runner.arun(self._put_writes(config, writes, task_id, task_path))

    @override
    async def adelete_thread(self, thread_id: str) -> None:
        await self._runner.arun(self._threads.delete(thread_id))

    # --- both

    async def _get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        thread_id, namespace = _place(config)
        wanted = get_checkpoint_id(config)
        for fields in await self._threads.read(thread_id, namespace, lambda fields: wanted in (None, fields["id"])):
            return self._tuple(thread_id, namespace, fields)
        return None

    async def _list(
        self,
        config: RunnableConfig | None,
        filter: dict[str, Any] | None,  # noqa: A002
        before: RunnableConfig | None,
        limit: int | None,
    ) -> Sequence[CheckpointTuple]:
        last = get_checkpoint_id(before) if before else None
        wanted = get_checkpoint_id(config) if config else None
        found: list[CheckpointTuple] = []
        for thread_id, namespace in await self._places(config):
            checkpoints = await self._threads.read(
                thread_id,
                namespace,
                lambda fields: wanted in (None, fields["id"]) and (last is None or fields["id"] < last),
            )
            tuples = [self._tuple(thread_id, namespace, fields) for fields in checkpoints]
            found += [each for each in tuples if not filter or filter.items() <= dict(each.metadata).items()]
        return found[:limit]

    async def _places(self, config: RunnableConfig | None) -> Sequence[tuple[str, str]]:
        """Return the thread and the namespace that are named, or all."""
        if config is None:
            return await self._threads.places(None)
        thread_id, namespace = _place(config)
        if "checkpoint_ns" in config["configurable"]:
            return [(thread_id, namespace)]
        return await self._threads.places(thread_id)

    async def _put(
        self, config: RunnableConfig, checkpoint: Checkpoint, metadata: CheckpointMetadata
    ) -> RunnableConfig:
        if metadata.get("counters_since_delta_snapshot"):
            raise NotImplementedError(
                "botwired's saver keeps the last checkpoints, and DeltaChannel needs all of them: use another channel, "
                "or a saver that keeps every checkpoint"
            )
        thread_id, namespace = _place(config)
        fields = {
            "id": checkpoint["id"],
            "parent": get_checkpoint_id(config),
            "checkpoint": self._dump(checkpoint),
            "metadata": self._dump(get_checkpoint_metadata(config, metadata)),
        }

        def put(thread: Fields) -> bool:
            others = [each for each in thread["checkpoints"] if each["id"] != fields["id"]]
            same = [each for each in thread["checkpoints"] if each["id"] == fields["id"]]
            writes = same[0]["writes"] if same else thread["early"].pop(fields["id"], [])
            ordered = sorted([*others, {**fields, "writes": writes}], key=lambda each: each["id"], reverse=True)
            thread["checkpoints"] = ordered[: self._keep]
            thread["early"] = {key: each for key, each in thread["early"].items() if key > ordered[0]["id"]}
            return True

        await self._threads.change(thread_id, namespace, put)
        return _config(thread_id, namespace, checkpoint["id"])

    async def _put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str
    ) -> None:
        thread_id, namespace = _place(config)
        checkpoint_id = config["configurable"]["checkpoint_id"]
        new = [
            {
                "task": task_id,
                "path": task_path,
                "index": WRITES_IDX_MAP.get(channel, index),
                "channel": channel,
                "value": self._dump(value),
            }
            for index, (channel, value) in enumerate(writes)
        ]

        def put(thread: Fields) -> bool:
            for fields in thread["checkpoints"]:
                if fields["id"] == checkpoint_id:
                    fields["writes"] = _merged(fields["writes"], new)
                    return True
            if any(fields["id"] > checkpoint_id for fields in thread["checkpoints"]):
                return False  # the checkpoint has gone, and its writes with it
            thread["early"][checkpoint_id] = _merged(thread["early"].get(checkpoint_id, []), new)
            return True

        await self._threads.change(thread_id, namespace, put)

    def _tuple(self, thread_id: str, namespace: str, fields: Fields) -> CheckpointTuple:
        return CheckpointTuple(
            config=_config(thread_id, namespace, fields["id"]),
            checkpoint=self._load(fields["checkpoint"]),
            metadata=self._load(fields["metadata"]),
            parent_config=_config(thread_id, namespace, fields["parent"]) if fields["parent"] else None,
            pending_writes=[(each["task"], each["channel"], self._load(each["value"])) for each in fields["writes"]],
        )

    def _dump(self, value: Any) -> str:
        kind, data = self.serde.dumps_typed(value)
        return f"{kind}:{base64.b64encode(zlib.compress(data)).decode()}"

    def _load(self, text: str) -> Any:
        kind, _, data = text.partition(":")
        return self.serde.loads_typed((kind, zlib.decompress(base64.b64decode(data))))


def _merged(writes: Sequence[Fields], new: Sequence[Fields]) -> list[Fields]:
    """Return writes in LangGraph's order. Of a task's regular writes the first counts, of its special ones the last."""
    merged = {(each["task"], each["index"]): each for each in writes}
    for each in new:
        if each["index"] < 0 or (each["task"], each["index"]) not in merged:
            merged[each["task"], each["index"]] = dict(each)
    return sorted(merged.values(), key=lambda each: writes_sort_key(each["path"], each["task"], each["index"]))


def _place(config: RunnableConfig) -> tuple[str, str]:
    configurable = config["configurable"]
    return str(configurable["thread_id"]), configurable.get("checkpoint_ns", "")


def _config(thread_id: str, namespace: str, checkpoint_id: str) -> RunnableConfig:
    return {"configurable": {"thread_id": thread_id, "checkpoint_ns": namespace, "checkpoint_id": checkpoint_id}}
