"""The errors of a memory. `Error` is the base of all of them."""

from __future__ import annotations


class Error(Exception):
    """A request of the memory has failed."""


class Unavailable(Error):
    """The memory has not answered within the patience of the `Memory`.

    A write that raises it may have been made: its answer may be what was lost. Read the entry to find out.
    """


class Unauthorized(Error):
    """The daemon wants a token, or another one than it was sent."""


class Refused(Error):
    """The memory refuses the request, and would refuse it again.

    `status` is the HTTP status (400, 413, 422, 507, …), and `detail` the reason in the memory's own words.
    """

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(f"{detail} (HTTP {status})")
        self.status = status
        self.detail = detail

    def __reduce__(self) -> tuple[type[Refused], tuple[int, str]]:
        """Errors of processes and pools travel by pickle."""
        return type(self), (self.status, self.detail)


class Conflict(Error):
    """The entry is not as `if_version` names it: somebody has written it since.

    `version` is the entry's version now, and None if the entry does not exist.
    """

    def __init__(self, message: str, version: str | None = None) -> None:
        super().__init__(message)
        self.version = version

    def __reduce__(self) -> tuple[type[Conflict], tuple[str, str | None]]:
        """Errors of processes and pools travel by pickle."""
        return type(self), (str(self), self.version)


class Unsupported(Error):
    """The server behind the URL keeps no versions: it is BotWire itself, without a botwired before it."""
