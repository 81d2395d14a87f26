"""A LangChain agent that remembers: its messages are in botwired.

    pip install -r requirements.txt
    python agent.py "Remember: the keys are under the mat"
    python agent.py "What do you remember?"

model.py stands for a model: put one of yours here, such as init_chat_model("openai:gpt-5").
"""

import sys

from botwired import Memory
from botwired.langchain import ChatMessageHistory
from langchain_core.runnables.history import RunnableWithMessageHistory

from model import Model


def main(messages: list[str]) -> None:
    with Memory("langchain-agent") as memory:
        agent = RunnableWithMessageHistory(Model(), lambda session_id: ChatMessageHistory(session_id, memory))
        for message in messages:
            answer = agent.invoke(message, {"configurable": {"session_id": "user-42"}})
            print(answer.content)


main(sys.argv[1:])
