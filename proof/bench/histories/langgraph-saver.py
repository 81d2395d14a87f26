"""botwired.langgraph: the checkpoints of a graph whose state is the messages."""
from botwired import Memory
from botwired.langgraph import CheckpointSaver
from driver import CONVERSATION, main
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.graph import END, START, MessagesState, StateGraph


def conversation():
    builder = StateGraph(MessagesState)
    builder.add_node("listen", lambda state: {})
    builder.add_edge(START, "listen")
    builder.add_edge("listen", END)
    graph = builder.compile(checkpointer=CheckpointSaver(Memory(CONVERSATION)))
    config = {"configurable": {"thread_id": CONVERSATION}}

    def count():
        return len(graph.get_state(config).values.get("messages", []))

    def say(number, text):
        message = (AIMessage if number % 2 else HumanMessage)(content=text)
        assert len(graph.invoke({"messages": [message]}, config)["messages"]) == number + 1

    return say, count


main("LangGraph: `botwired.langgraph`, checkpoints", ["langgraph"], conversation)
