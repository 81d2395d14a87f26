"""The life of a sandbox, and what its agent still knows after each step.

    pip install -r requirements.txt
    python life.py inside    # a botwired in each sandbox
    python life.py beside    # one botwired for all sandboxes, outside

A sandbox is some processes and a folder of this machine: a pause stops the processes, a clone starts new ones on a
copy of the folder, and a kill ends them and deletes the folder. `botwired selfhost` stands in for BotWire.
"""

import json
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from local_sandbox import LocalSandbox

# A linger of an hour: what nobody flushes is upstream only if its namespace writes through. On one machine, upstream
# carries nothing out later than a second.
SETTINGS = [
    "--flush-linger", "1h", "--upstream-late-window", "1s", "--namespaces", '[{"match": "ledger", "write_through": true}]',
]  # fmt: skip
AGENT = "from botwired import Memory; notes, ledger = Memory('notes'), Memory('ledger')"
KNOWN = "'; '.join(sorted(value for memory in (notes, ledger) for _, value in memory.items())) or 'nothing'"


started: list[subprocess.Popen[str]] = []  # all processes, of which none outlives this one


class Botwired:
    """A server of the program's, at an address that the system chooses."""

    def __init__(self, command: str, *flags: str) -> None:
        arguments = ["botwired", command, *flags, "--listen", "127.0.0.1:0"]
        self.process = subprocess.Popen(arguments, stderr=subprocess.PIPE, encoding="utf-8")
        started.append(self.process)
        assert self.process.stderr
        listening = next((line for line in self.process.stderr if '"listening"' in line), None)
        if listening is None:
            sys.exit(f"botwired {command} has ended")
        self.address = json.loads(listening)["address"]

    def flush(self) -> None:
        subprocess.run(["botwired", "flush", "--listen", self.address], check=True, stdout=subprocess.DEVNULL)


def daemon(disk: Path, upstream: Botwired) -> Botwired:
    return Botwired(
        "serve", "--upstream", f"http://{upstream.address}", "--data-dir", str(disk / "botwired"), *SETTINGS
    )


class Sandbox:
    """An agent, with a botwired on the sandbox's disk unless there is one outside."""

    def __init__(self, disk: Path, upstream: Botwired, outside: Botwired | None) -> None:
        disk.mkdir(exist_ok=True)
        self.disk, self.upstream, self.outside = disk, upstream, outside
        self.memory = outside or daemon(disk, upstream)
        self.agent = LocalSandbox({"BOTWIRE_URL": f"http://{self.memory.address}"})
        started.append(self.agent.kernel)
        self.processes = [self.agent.kernel] if outside else [self.agent.kernel, self.memory.process]
        self.run(AGENT)

    def run(self, code: str) -> str:
        execution = self.agent.run_code(code)
        if execution.error:
            sys.exit(execution.error.traceback)
        return execution.text or ""

    def learns(self, fact: str, memory: str = "notes") -> None:
        self.run(f"{memory}.set({fact.split(':')[0]!r}, {fact!r})")

    def knows(self) -> str:
        return self.run(KNOWN).strip("'")

    def pause(self) -> None:
        self.memory.flush()
        for process in self.processes:
            process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        for process in self.processes:
            process.send_signal(signal.SIGCONT)

    def clone(self, disk: Path) -> "Sandbox":
        self.pause()
        shutil.copytree(self.disk, disk)
        self.resume()
        return Sandbox(disk, self.upstream, self.outside)

    def kill(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()
        shutil.rmtree(self.disk)


def say(step: str, knows: str) -> None:
    print(f"{step:11} {knows}", flush=True)


def live(place: str, folder: Path) -> None:
    upstream = Botwired("selfhost", "--db", str(folder / "upstream.db"))
    outside = daemon(folder, upstream) if place == "beside" else None

    first = Sandbox(folder / "first", upstream, outside)
    first.learns("goal: find the keys")
    say("create", first.knows())

    first.learns("garden: empty")
    first.pause()
    first.resume()
    say("pause", first.knows())

    clone = first.clone(folder / "clone")
    first.learns("left: a locked door")
    clone.learns("right: the keys")
    say("clone", first.knows())
    say("  the clone", clone.knows())

    first.learns("spent: 42", "ledger")
    first.kill()  # without a flush
    clone.memory.flush()
    clone.kill()
    say("kill", "there is no agent")

    say("recreate", Sandbox(folder / "new", upstream, outside).knows())


def main() -> None:
    if sys.argv[1:] not in (["inside"], ["beside"]):
        sys.exit(__doc__)
    with tempfile.TemporaryDirectory() as folder:
        try:
            live(sys.argv[1], Path(folder))
        finally:
            for process in started:
                process.kill()
                process.wait()


main()
