"""In place of E2B's sandbox: a Python process that keeps its variables from cell to cell. It isolates nothing."""

import json
import subprocess
import sys

from e2b_code_interpreter import Execution, ExecutionError, Logs

# The process reads a cell of code as a line of JSON, and answers with a line of JSON.
KERNEL = """
import contextlib, io, json, sys, traceback
variables = {"__name__": "__main__"}
for line in sys.stdin:
    printed, error = io.StringIO(), None
    with contextlib.redirect_stdout(printed):
        try:
            exec(json.loads(line), variables)
        except Exception as e:
            error = [type(e).__name__, str(e), traceback.format_exc()]
    print(json.dumps([printed.getvalue(), error]), flush=True)
"""


class LocalSandbox:
    def __init__(self) -> None:
        self._kernel = subprocess.Popen(
            [sys.executable, "-c", KERNEL], stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8"
        )

    def run_code(self, code: str) -> Execution:
        assert self._kernel.stdin and self._kernel.stdout
        self._kernel.stdin.write(json.dumps(code) + "\n")
        self._kernel.stdin.flush()
        printed, error = json.loads(self._kernel.stdout.readline())
        return Execution(logs=Logs(stdout=[printed]), error=ExecutionError(*error) if error else None)

    def __enter__(self) -> "LocalSandbox":
        return self

    def __exit__(self, *_: object) -> None:
        assert self._kernel.stdin
        self._kernel.stdin.close()
        self._kernel.wait()
