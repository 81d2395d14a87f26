"""The asynchronous transport."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any, TypeVar

import httpx

from botwired._address import Address
from botwired._http import UNLIMITED, Reading, headers_for, lost_by, options, state_after, timeout_of, url_of
from botwired._steps import Answer, Call, Lost, Request, Sleep, Steps

T = TypeVar("T")


class AsyncTransport:
    """Carries out steps with an httpx.AsyncClient: the caller's, or one of its own for each event loop."""

    def __init__(self, address: Address, timeout: float, client: httpx.AsyncClient | None) -> None:
        self._address = address
        self._timeout = timeout
        self._given = client
        self.state: str | None = None  # by the newest answer that knows it
        self._own: dict[asyncio.AbstractEventLoop, httpx.AsyncClient] = {}

    async def run(self, steps: Steps[T]) -> T:
        """Carry out all steps, and return the result."""
        reply: Any = None
        while True:
            try:
                step = steps.send(reply)
            except StopIteration as end:
                result: T = end.value
                return result
            if isinstance(step, Request):
                reply = await self._attempt(step)
            elif isinstance(step, Sleep):
                await asyncio.sleep(step.seconds)
                reply = None
            elif isinstance(step, Call):
                reply = step.function(step.argument)
                if inspect.isawaitable(reply):
                    reply = await reply

    async def close(self) -> None:
        """Close the connections of this event loop. The next request makes new ones."""
        client = self._own.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.aclose()

    async def _attempt(self, request: Request) -> Answer | Lost:
        timeout = timeout_of(self._timeout, request)
        reading = Reading(timeout)
        try:
            async with self._client().stream(
                request.method,
                url_of(self._address, request),
                headers=headers_for(self._address, request),
                content=request.body,
                timeout=timeout,
            ) as response:
                async for piece in response.aiter_bytes():
                    reading.add(piece)
        except httpx.RequestError as e:
            return lost_by(e)
        answer = reading.answer(response)
        self.state = state_after(answer, self.state)
        return answer

    def _client(self) -> httpx.AsyncClient:
        if self._given is not None:
            return self._given
        loop = asyncio.get_running_loop()
        client = self._own.get(loop)
        if client is None:
            self._forget_closed_loops()
            client = self._own[loop] = self._connect()
        return client

    def _forget_closed_loops(self) -> None:
        """Let go of the connections of loops that have ended: each asyncio.run has a loop of its own."""
        for loop in list(self._own):
            if loop.is_closed():
                self._own.pop(loop, None)

    def _connect(self) -> httpx.AsyncClient:
        made_with = options(self._address)
        if self._address.socket:
            made_with["transport"] = httpx.AsyncHTTPTransport(
                uds=self._address.socket, limits=UNLIMITED, verify=made_with["verify"]
            )
        return httpx.AsyncClient(**made_with)
