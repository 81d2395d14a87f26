"""BotWire's own class for LangChain, for comparison: each message reads the whole history twice, and writes it back."""
from botwire import BotWireChatHistory
from driver import CONVERSATION, main
from langchain_core.messages import AIMessage, HumanMessage


def conversation():
    history = BotWireChatHistory(session_id=CONVERSATION, namespace=CONVERSATION)

    def say(number, text):
        assert len(history.messages) == number
        history.add_message((AIMessage if number % 2 else HumanMessage)(content=text))

    return say, lambda: len(history.messages)


main("BotWire's `BotWireChatHistory` (LangChain)", ["botwire", "langchain-core"], conversation)
