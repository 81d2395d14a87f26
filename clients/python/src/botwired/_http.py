"""Requests and answers as httpx has them."""

from __future__ import annotations

import ssl
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


def url_of(address: Address, request: Request) -> str:
    """Return the whole URL of a request."""
    return address.url + request.path


def headers_for(address: Address, request: Request) -> dict[str, str]:
    """Return the request's headers, and those of every request."""
    headers = {"accept": "application/json", "user-agent": f"botwired-python/{__version__}", **request.headers}
    if address.authorization is not None:
        headers["authorization"] = address.authorization
    return headers


def answer_of(response: httpx.Response) -> Answer:
    """Return the answer that a response is."""
    return Answer(response.status_code, {k.lower(): v for k, v in response.headers.items()}, response.content)


def lost_by(error: httpx.TransportError) -> Lost:
    """Return what an error of the connection says about the attempt."""
    if isinstance(error, httpx.UnsupportedProtocol):
        raise Error(str(error)) from error
    return Lost(str(error) or type(error).__name__, not isinstance(error, _NOT_SENT))
