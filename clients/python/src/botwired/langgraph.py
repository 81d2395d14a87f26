"""LangGraph's store and checkpoints, kept in a memory: ``pip install 'botwired[langgraph]'``.

    from botwired import Memory
    from botwired.langgraph import CheckpointSaver, Store

    memory = Memory("my-agent")
    builder.compile(checkpointer=CheckpointSaver(memory), store=Store(memory))

Both may share one memory, which may be a Memory, whose requests the asynchronous methods make in a thread, or an
AsyncMemory, which has only the asynchronous methods.
"""

try:
    import langgraph.checkpoint.base
    import langgraph.store.base  # noqa: F401
except ImportError as e:
    raise ImportError("botwired.langgraph needs langgraph: pip install 'botwired[langgraph]'") from e

from botwired._langgraph_saver import CheckpointSaver
from botwired._langgraph_store import Store

__all__ = ["CheckpointSaver", "Store"]
