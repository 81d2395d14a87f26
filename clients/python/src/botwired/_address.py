"""Where the memory is, and with which token it is asked."""

from __future__ import annotations

import base64
import ipaddress
import os
from dataclasses import dataclass, field
from urllib.parse import SplitResult, unquote, urlsplit

import httpx

DEFAULT_URL = "http://127.0.0.1:2689"


@dataclass(frozen=True)
class Address:
    """A base URL, taken apart."""

    url: str
    """Without a user, a password and a slash at the end."""
    socket: str | None
    """The path of the Unix socket to connect to, if it is one."""
    authorization: str | None = field(repr=False)
    """The value of the Authorization header."""
    is_local: bool
    """The address is loopback or a socket: no proxy has to do with it."""

    @property
    def shown(self) -> str:
        """The base URL for people, without a token."""
        return f"unix://{self.socket}" if self.socket else self.url

    @classmethod
    def parse(cls, base_url: str | None, token: str | None) -> Address:
        """Take the URL, else BOTWIRE_URL, else the daemon's usual address. ValueError says what is wrong with it."""
        parts = _split(base_url or os.environ.get("BOTWIRE_URL") or DEFAULT_URL)
        authorization = None if token is None else _bearer(token)
        if parts.scheme == "unix":
            if not parts.path or parts.netloc:
                raise ValueError(
                    "the URL of a Unix socket must have an absolute path, such as unix:///run/botwired.sock"
                )
            return cls("http://localhost", unquote(parts.path), authorization, True)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise ValueError(f"a base URL must be such as {DEFAULT_URL} or unix:///run/botwired.sock")
        if authorization is None and (parts.username or parts.password):
            authorization = _basic(parts.username or "", parts.password or "")
        url = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path.rstrip('/')}"
        return cls(url, None, authorization, _is_loopback(parts.hostname))


def _split(text: str) -> SplitResult:
    """Take a URL apart. No error shows any of it: it may have a token."""
    try:
        parts = urlsplit(text)
        _ = parts.port
        _ = httpx.URL(text if parts.scheme in ("http", "https") else "")
    except (ValueError, httpx.InvalidURL):
        raise ValueError(
            "the base URL has no valid host or port. A token in it must have %2F for a slash, %3F for a question mark "
            "and %23 for a number sign"
        ) from None
    return parts


def _bearer(token: str) -> str:
    if not token.isascii() or not token.isprintable() or not token.strip():
        raise ValueError("a token must be of printable ASCII characters, without a line break")
    return f"Bearer {token.strip()}"


def _basic(user: str, password: str) -> str:
    pair = f"{unquote(user)}:{unquote(password)}"
    return "Basic " + base64.b64encode(pair.encode()).decode()


def _is_loopback(host: str) -> bool:
    """Tell whether the daemon, too, takes the host for loopback. A network's resolver may answer for x.localhost."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
