"""A stand-in for Claude: it keeps what begins with "Remember: " in a file, a line each, and else reads that file out."""

import json
import re
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

FILE = "/memories/facts.txt"
THREADS: dict[str, list[dict[str, Any]]] = {}  # the messages up to a reply, by its id


@contextmanager
def serving() -> Iterator[str]:
    """The stand-in at an address on loopback."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        # Of a thread, a request has only what is new.
        earlier = THREADS.get(request.get("thread", {}).get("previous_message_id"), [])
        messages = [*earlier, *request["messages"]]
        block = reply(messages)
        message_id = f"msg_{uuid.uuid4().hex}"
        THREADS[message_id] = [*messages, {"role": "assistant", "content": [block]}]
        body = json.dumps({
            "id": message_id, "type": "message", "role": "assistant", "model": request["model"], "content": [block],
            "stop_reason": "tool_use" if block["type"] == "tool_use" else "end_turn", "stop_sequence": None,
            "usage": {"input_tokens": 1, "output_tokens": 1},
        }).encode()  # fmt: skip
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


def reply(messages: list[dict[str, Any]]) -> dict[str, Any]:
    said = messages[0]["content"]
    if len(messages) == 1:
        return command("view", path=FILE)
    result = messages[-1]["content"][0]
    if result.get("is_error") and "does not exist" not in shown(result):
        return text(f"The memory tool failed: {shown(result)}")
    if len(messages) > 3:
        return text("I will remember that.")
    lines = re.findall(r"^ *\d+\t(.+)$", shown(result), re.MULTILINE)
    if not said.startswith("Remember: "):
        return text(f"I remember: {'; '.join(lines)}")
    fact = said.removeprefix("Remember: ") + "\n"
    if result.get("is_error"):
        return command("create", path=FILE, file_text=fact)
    return command("insert", path=FILE, insert_line=len(lines), insert_text=fact)


def shown(result: dict[str, Any]) -> str:
    content = result["content"]
    return content if isinstance(content, str) else "".join(block["text"] for block in content)


def command(name: str, **arguments: Any) -> dict[str, Any]:
    return {
        "type": "tool_use",
        "id": f"toolu_{uuid.uuid4().hex}",
        "name": "memory",
        "input": {"command": name, **arguments},
    }


def text(answer: str) -> dict[str, Any]:
    return {"type": "text", "text": answer}
