"""LangGraph's own suite for checkpoint savers."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from typing import Any

from conftest import Server
from langgraph.checkpoint.conformance import checkpointer_test, validate

from botwired import AsyncMemory
from botwired.langgraph import CheckpointSaver

# The suite makes up to 4 checkpoints of a thread. A saver that keeps one lacks the others.
SHALLOW_LACKS = {
    "put": {"test_put_multiple_checkpoints_same_thread", "test_put_incremental_channel_update"},
    "get_tuple": {"test_get_tuple_specific_checkpoint_id"},
    "list": {
        "test_list_all", "test_list_by_thread", "test_list_ordering", "test_list_metadata_filter_single_key",
        "test_list_metadata_filter_step", "test_list_metadata_custom_keys", "test_list_before", "test_list_limit",
        "test_list_limit_plus_before", "test_list_combined_thread_and_filter",
    },
}  # fmt: skip
BASE = ["put", "put_writes", "get_tuple", "list", "delete_thread"]


async def run(server: Server, keep: int) -> dict[str, Any]:
    @checkpointer_test(name=f"botwired, keep={keep}")
    async def saver() -> AsyncIterator[CheckpointSaver]:
        async with AsyncMemory(f"test-{uuid.uuid4().hex}", server.url) as memory:
            yield CheckpointSaver(memory, keep=keep)

    report = await validate(saver)
    report.print_report()
    results: dict[str, Any] = report.to_dict()["results"]
    for name in BASE:
        print(f"    {name}: {results[name]['tests_passed']} passed, {results[name]['tests_failed']} failed")
    return results


async def test_a_saver_that_keeps_checkpoints_has_all_base_capabilities(server: Server) -> None:
    results = await run(server, keep=4)
    assert {name: results[name]["failures"] for name in BASE} == {name: [] for name in BASE}
    assert sum(results[name]["tests_passed"] for name in BASE) == 58


async def test_a_shallow_saver_lacks_what_needs_an_older_checkpoint(server: Server) -> None:
    results = await run(server, keep=1)
    failed = {name: {failure.split(":")[0] for failure in results[name]["failures"]} for name in BASE}
    assert {name: tests for name, tests in failed.items() if tests} == SHALLOW_LACKS
