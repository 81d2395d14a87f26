"""A LangGraph agent that remembers: botwired keeps the state of each of its threads.

    pip install -r requirements.txt
    python agent.py "Remember: the keys are under the mat"
    python agent.py "What do you remember?"

model.py stands for a model: put one of yours here, such as init_chat_model("openai:gpt-5").
"""

import sys

from botwired import Memory
from botwired.langgraph import CheckpointSaver
from langgraph.graph import START, MessagesState, StateGraph

from model import Model

model = Model()


def answer(state: MessagesState) -> MessagesState:
    return {"messages": [model.invoke(state["messages"])]}


def main(messages: list[str]) -> None:
    with Memory("langgraph-agent") as memory:
        graph = StateGraph(MessagesState).add_node(answer).add_edge(START, "answer")
        agent = graph.compile(checkpointer=CheckpointSaver(memory))
        for message in messages:
            state = agent.invoke({"messages": [("user", message)]}, {"configurable": {"thread_id": "user-42"}})
            print(state["messages"][-1].content)


main(sys.argv[1:])
