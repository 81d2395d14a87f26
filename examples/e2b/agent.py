"""A code interpreter with a memory: its sandbox is thrown away, and its variables are not.

    pip install -r requirements.txt
    python agent.py "Remember: the keys are under the mat"
    python agent.py "What do you remember?"

With E2B_API_KEY set, the code runs in a sandbox of E2B's. Without, it runs in a process of this machine.
model.py stands for a model: put one of yours there, which writes code.

The memory is on the agent's side, not in the sandbox: code that a model has written gets no access to it.
"""

import json
import os
import sys

from botwired import Memory
from e2b_code_interpreter import Execution, Sandbox

from local_sandbox import LocalSandbox
from model import code_for

# This code runs in the sandbox. It prints the variables that JSON can carry.
SAVE = """
def _saved(variables):
    import json
    for name, value in variables.items():
        if not name.startswith("_") and name not in ("In", "Out"):
            try:
                yield name, json.loads(json.dumps(value))
            except (TypeError, ValueError):
                pass
print(__import__("json").dumps(dict(_saved(globals().copy()))))
"""


def output(execution: Execution) -> str:
    if execution.error:
        raise RuntimeError(f"the sandbox says: {execution.error.name}: {execution.error.value}")
    return "".join(execution.logs.stdout).strip()


def main(messages: list[str]) -> None:
    open_sandbox = Sandbox.create if os.environ.get("E2B_API_KEY") else LocalSandbox
    with Memory("e2b-agent") as memory, open_sandbox() as sandbox:
        variables = memory.get("variables", {})
        output(sandbox.run_code(f"import json; globals().update(json.loads({json.dumps(variables)!r}))"))
        for message in messages:
            print(output(sandbox.run_code(code_for(message))), flush=True)
            now = json.loads(output(sandbox.run_code(SAVE)))
            if now != variables:
                memory.set("variables", now)
                variables = now


main(sys.argv[1:])
