# The agent of a new user of the Python package: it remembers a value, or reads it back.
import sys

from botwired import Memory

memory = Memory("demo")
if sys.argv[1] == "remember":
    memory.set("greeting", "hello")
print(memory.get("greeting"))
