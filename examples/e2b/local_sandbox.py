"""In place of E2B's sandbox: a Python process that keeps its variables from cell to cell. It isolates nothing."""

import json
import os
import subprocess
import sys

from e2b_code_interpreter import Execution, ExecutionError, Logs, Result

# The process reads a cell of code as a line of JSON, and answers with a line of JSON. As in a notebook, the value of
# a cell is that of its last line.
KERNEL = """
import ast, contextlib, io, json, sys, traceback
variables = {"__name__": "__main__"}
for line in sys.stdin:
    printed, value, error = io.StringIO(), None, None
    with contextlib.redirect_stdout(printed):
        try:
            cell = ast.parse(json.loads(line))
            last = cell.body.pop() if cell.body and isinstance(cell.body[-1], ast.Expr) else None
            exec(compile(cell, "cell", "exec"), variables)
            value = eval(compile(ast.Expression(last.value), "cell", "eval"), variables) if last else None
        except Exception as e:
            error = [type(e).__name__, str(e), traceback.format_exc()]
    print(json.dumps([printed.getvalue(), None if value is None else repr(value), error]), flush=True)
"""


class LocalSandbox:
    def __init__(self, envs: dict[str, str] | None = None) -> None:
        self.kernel = subprocess.Popen(
            [sys.executable, "-c", KERNEL],
            env={**os.environ, **(envs or {})},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            encoding="utf-8",
        )

    def run_code(self, code: str) -> Execution:
        assert self.kernel.stdin and self.kernel.stdout
        self.kernel.stdin.write(json.dumps(code) + "\n")
        self.kernel.stdin.flush()
        printed, value, error = json.loads(self.kernel.stdout.readline())
        return Execution(
            results=[Result(text=value, is_main_result=True)] if value else [],
            logs=Logs(stdout=[printed]),
            error=ExecutionError(*error) if error else None,
        )

    def __enter__(self) -> "LocalSandbox":
        return self

    def __exit__(self, *_: object) -> None:
        self.kernel.__exit__(None, None, None)  # closes its input, and waits for its end
