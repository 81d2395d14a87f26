"""Requests and answers as httpx has them."""

from __future__ import annotations

import ssl
import time
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import httpx

from botwired._address import Address
from botwired._steps import Answer, Lost, Request
from botwired.errors import Error

try:
    __version__ = version("botwired")
except PackageNotFoundError:  # the sources, and nothing installed
    __version__ = "0"

UNLIMITED = httpx.Limits(max_connections=None, max_keepalive_connections=100)
"""As many connections as there are callers: none waits for another one's long request."""

MAX_BYTES = 64 << 20
"""How long an answer may be, so that a server cannot fill the caller's memory. The longest of botwired's are its lists
of 10,000 entries, with a few MB."""

_LONGEST_TIMEOUT = 1e9
"""Seconds: no socket takes a timeout without an end."""

_NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.ProxyError)


def options(address: Address) -> dict[str, Any]:
    """Return what the client for an address is made with. The caller adds the transport for a Unix socket."""
    return {
        "limits": UNLIMITED,
        "trust_env": not address.is_local,
        "verify": _trust(address),
        "follow_redirects": False,
    }


def _trust(address: Address) -> ssl.SSLContext | bool:
    """Return whom to trust.

    To load the certificates takes longer than all else, and plain HTTP has no use for them: it trusts nobody.
    """
    if address.is_local and address.url.startswith("http:"):
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    return True


def timeout_of(timeout: float, request: Request) -> float:
    """Return the seconds that an attempt may take."""
    return min(timeout + request.wait, _LONGEST_TIMEOUT)


def url_of(address: Address, request: Request) -> str:
    """Return the whole URL of a request."""
    return address.url + request.path


def headers_for(address: Address, request: Request) -> dict[bytes, bytes]:
    """Return the request's headers, and those of every request, in UTF-8: httpx would take ASCII only."""
    headers = {"accept": "application/json", "user-agent": f"botwired-python/{__version__}", **request.headers}
    if address.authorization is not None:
        headers["authorization"] = address.authorization
    return {name.encode(): value.encode() for name, value in headers.items()}


class Reading:
    """An answer on its way, which must end in time: httpx's own timeouts begin anew with every byte."""

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self._deadline = time.monotonic() + timeout
        self._body = bytearray()

    def add(self, piece: bytes) -> None:
        """Take a piece of the body."""
        self._body += piece
        if len(self._body) > MAX_BYTES:
            raise Error(f"the answer is longer than {MAX_BYTES >> 20} MiB: is something else at this URL?")
        if time.monotonic() > self._deadline:
            raise httpx.ReadTimeout(f"the answer did not end within {self._timeout:g} s")

    def answer(self, response: httpx.Response) -> Answer:
        """Return the answer that a response is, after its last piece."""
        headers = {name.lower(): value for name, value in response.headers.items()}
        return Answer(response.status_code, headers, bytes(self._body))


def state_after(answer: Answer, before: str | None) -> str | None:
    """Return the memory's state after an answer. An error of the server's without one may be a gateway's."""
    return answer.headers.get("botwired-state", before if answer.status >= 500 else None)


def lost_by(error: httpx.RequestError) -> Lost:
    """Return what an error of the connection says about the attempt."""
    if isinstance(error, httpx.UnsupportedProtocol):
        raise Error(str(error)) from error
    if isinstance(error, httpx.DecodingError):
        raise Error(f"the answer is not one of BotWire's ({error}): is something else at this URL?") from error
    return Lost(str(error) or type(error).__name__, not isinstance(error, _NOT_SENT), error)
