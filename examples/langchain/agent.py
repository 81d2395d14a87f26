"""A LangChain agent that remembers: its messages are in botwired.

    pip install -r requirements.txt
    python agent.py "Remember: the keys are under the mat"
    python agent.py "What do you remember?"

model.py stands for a model: put one of yours here, such as init_chat_model("openai:gpt-5").
"""

import sys

from botwired import Memory
from botwired.langchain import ChatMessageHistory
from langchain_core.messages import HumanMessage

from model import Model


def main(messages: list[str]) -> None:
    with Memory("langchain-agent") as memory:
        history = ChatMessageHistory("user-42", memory)
        model = Model()
        for message in messages:
            question = HumanMessage(message)
            answer = model.invoke([*history.messages, question])
            history.add_messages([question, answer])
            print(answer.content)


main(sys.argv[1:])
