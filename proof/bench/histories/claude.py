"""botwired.claude: a file that Claude views, and adds a line to."""
from anthropic.lib.tools import ToolError
from anthropic.types.beta import (
    BetaMemoryTool20250818CreateCommand as Create,
    BetaMemoryTool20250818InsertCommand as Insert,
    BetaMemoryTool20250818ViewCommand as View,
)
from botwired import Memory
from botwired.claude import MemoryTool
from driver import CONVERSATION, main

PATH = "/memories/notes.md"


def conversation():
    tool = MemoryTool(Memory(CONVERSATION))

    def lines():
        try:
            return tool.view(View(command="view", path=PATH)).count("The train to Lisbon")
        except ToolError:
            return 0

    def say(number, text):
        assert lines() == number
        if number:
            tool.insert(Insert(command="insert", path=PATH, insert_line=number, insert_text=text + "\n"))
        else:
            tool.create(Create(command="create", path=PATH, file_text=text + "\n"))

    return say, lines


main("Claude's memory tool: `botwired.claude`, one file", ["anthropic"], conversation)
