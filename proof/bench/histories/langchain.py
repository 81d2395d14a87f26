"""botwired.langchain: a chat history."""
from botwired import Memory
from botwired.langchain import ChatMessageHistory
from driver import CONVERSATION, main
from langchain_core.messages import AIMessage, HumanMessage


def conversation():
    history = ChatMessageHistory(CONVERSATION, Memory(CONVERSATION))

    def say(number, text):
        assert len(history.messages) == number
        history.add_messages([(AIMessage if number % 2 else HumanMessage)(content=text)])

    return say, lambda: len(history.messages)


main("LangChain: `botwired.langchain`", ["langchain-core"], conversation)
