"""The clients of make e2e, in the order of its table."""
import json
import re
import subprocess
from dataclasses import dataclass

from harness import EXAMPLES, HERE, ROOT

BOTWIRE = ROOT / ".venv"  # BotWire's own SDK; make conversation uses it, too
BUILT = ROOT / "bin" / "e2e"  # the environments of the examples


@dataclass(frozen=True)
class Client:
    """A program that keeps its memory in botwired. An example's name is that of its folder."""

    name: str
    title: str
    program: str
    package: str  # whose version the table shows
    environment: str = "agents"  # a virtual environment, "node" or "tools"
    with_token: bool = False  # it is also run with a token
    needs_daemon: bool = False  # it speaks to botwired alone, not to a BotWire without it
    keeps_all: bool = False  # of processes that remember at the same time, none overwrites another's fact

    example = True

    def command(self):
        return [*self._interpreter(), EXAMPLES / self.name / self.program]

    def _interpreter(self):
        if self.environment == "node":
            return [node()]
        return [] if self.environment == "tools" else [venv(self.environment) / "bin" / "python"]

    def version(self):
        if self.environment == "tools":
            first = subprocess.run([self.package, "--version"], capture_output=True, text=True, check=True).stdout
            return re.search(r"\d+(\.\d+)+", first)[0]
        if self.environment == "node":
            return npm_version(EXAMPLES / self.name / "node_modules" / self.package)
        return pip_version(venv(self.environment), self.package)


@dataclass(frozen=True)
class Checked(Client):
    """One of BotWire's own clients, in a program that checks each step itself."""

    example = False

    def command(self):
        return [*self._interpreter(), HERE / self.program]

    def version(self):
        return node_version() if self.environment == "node" else super().version()


def venv(environment):
    return BOTWIRE if environment == "botwire" else BUILT / environment


def pip_version(environment, package):
    code = f"import importlib.metadata; print(importlib.metadata.version({package!r}))"
    return subprocess.run([environment / "bin" / "python", "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def npm_version(folder):
    return json.loads((folder / "package.json").read_text())["version"]


def node():
    """The Node of the examples: the AI SDK wants a newer one than many systems have."""
    return HERE / "node_modules" / ".bin" / "node"


def node_version():
    return subprocess.run([node(), "--version"], capture_output=True, text=True, check=True).stdout.strip().lstrip("v")


CLIENTS = [
    Checked("botwire-python", "BotWire's Python SDK", "client.py", "botwire", "botwire", with_token=True),
    Checked("botwire-node", "Node's fetch", "client.mjs", "node", "node", with_token=True),
    Client("curl", "curl", "agent.sh", "curl", "tools", with_token=True, keeps_all=True),
    Client("claude-memory-tool", "Claude's memory tool", "agent.py", "anthropic"),
    Client("langchain", "LangChain", "agent.py", "langchain-core"),
    Client("langgraph", "LangGraph", "agent.py", "langgraph"),
    Client("pydantic-ai", "Pydantic AI", "agent.py", "pydantic-ai-slim"),
    Client("openai-agents", "OpenAI Agents", "agent.py", "openai-agents"),
    Client("llama-index", "LlamaIndex", "agent.py", "llama-index-core"),
    Client("crewai", "CrewAI", "agent.py", "crewai", "crewai"),
    Client("e2b", "E2B code interpreter", "agent.py", "e2b-code-interpreter", with_token=True),
    Client("mcp", "MCP", "agent.py", "mcp", needs_daemon=True, keeps_all=True),
    Client("vercel-ai", "Vercel AI SDK", "agent.mjs", "ai", "node", with_token=True, keeps_all=True),
    Client("langgraph-js", "LangGraph.js", "agent.mjs", "@langchain/langgraph", "node"),
]
