"""The blocking transport."""

from __future__ import annotations

import contextlib
import os
import time
from typing import Any, TypeVar

import httpx

from botwired._address import Address
from botwired._http import UNLIMITED, Reading, headers_for, lost_by, options, state_after, timeout_of, url_of
from botwired._steps import Answer, Call, Lost, Request, Sleep, Steps

T = TypeVar("T")


class Transport:
    """Carries out steps with an httpx.Client: the caller's, or one of its own for each process.

    Threads share it. A forked child makes connections of its own: it never writes into its parent's.
    """

    def __init__(self, address: Address, timeout: float, client: httpx.Client | None) -> None:
        self._address = address
        self._timeout = timeout
        self._given = client
        self.state: str | None = None  # by the newest answer that knows it
        self._own: dict[int, httpx.Client] = {}  # by process; no lock, which a fork could leave locked

    def __getstate__(self) -> dict[str, Any]:
        """Another process, to which a Memory travels by pickle, makes connections of its own."""
        return {**self.__dict__, "_own": {}}

    def run(self, steps: Steps[T]) -> T:
        """Carry out all steps, and return the result."""
        reply: Any = None
        while True:
            try:
                step = steps.send(reply)
            except StopIteration as end:
                result: T = end.value
                return result
            if isinstance(step, Request):
                reply = self._attempt(step)
            elif isinstance(step, Sleep):
                time.sleep(step.seconds)
                reply = None
            elif isinstance(step, Call):
                reply = step.function(step.argument)

    def close(self) -> None:
        """Close the connections. The next request makes new ones."""
        client = self._own.pop(os.getpid(), None)
        if client is not None:
            client.close()

    def __del__(self) -> None:
        """Close the connections of a Memory that nobody closes: agents make one for each request."""
        with contextlib.suppress(Exception):  # at the interpreter's end, what it takes may be gone
            self.close()

    def _attempt(self, request: Request) -> Answer | Lost:
        timeout = timeout_of(self._timeout, request)
        reading = Reading(timeout)
        try:
            with self._client().stream(
                request.method,
                url_of(self._address, request),
                headers=headers_for(self._address, request),
                content=request.body,
                timeout=timeout,
            ) as response:
                for piece in response.iter_bytes():
                    reading.add(piece)
        except httpx.RequestError as e:
            return lost_by(e)
        answer = reading.answer(response)
        self.state = state_after(answer, self.state)
        return answer

    def _client(self) -> httpx.Client:
        if self._given is not None:
            return self._given
        process = os.getpid()
        client = self._own.get(process)
        return self._own.setdefault(process, self._connect()) if client is None else client

    def _connect(self) -> httpx.Client:
        made_with = options(self._address)
        if self._address.socket:
            made_with["transport"] = httpx.HTTPTransport(
                uds=self._address.socket, limits=UNLIMITED, verify=made_with["verify"]
            )
        return httpx.Client(**made_with)
