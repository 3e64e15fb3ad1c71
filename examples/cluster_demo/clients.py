"""Clients that go on while servers are killed: one writes notes, the other follows the events."""

import asyncio
import contextlib
import json
from typing import Any, Final

import aiohttp

from circadia.clock import Clock

PAUSE_SECONDS: Final = 0.5
ANSWER_SECONDS: Final = 10.0
_FAULTS: Final = (aiohttp.ClientError, TimeoutError)


class NoteWriter:
    """Writes notes into a bank, one after the other; repeats each with its key until it is acknowledged."""

    def __init__(self, http: aiohttp.ClientSession, url: str, clock: Clock) -> None:
        self.acknowledged: dict[str, str] = {}
        """Ids of the notes by their keys."""
        self.repeats = 0
        self._http = http
        self._url = url
        self._clock = clock

    async def run(self) -> None:
        while True:
            key = f"note-{len(self.acknowledged) + 1}"
            while (note := await self._write(key)) is None:
                self.repeats += 1
                await self._clock.sleep(PAUSE_SECONDS)
            self.acknowledged[key] = note
            await self._clock.sleep(PAUSE_SECONDS)

    async def _write(self, key: str) -> str | None:
        body = {"text": f"{key} of the people on call", "speaker": "pager", "key": key}
        limit = aiohttp.ClientTimeout(total=ANSWER_SECONDS)
        with contextlib.suppress(*_FAULTS):
            async with self._http.post(self._url, json=body, timeout=limit) as answer:
                return (await answer.json())["id"] if answer.status < 300 else None
        return None


class EventFollower:
    """Follows the stream of events; when it breaks, it asks for what came after the last event."""

    def __init__(self, http: aiohttp.ClientSession, url: str, clock: Clock) -> None:
        self.numbers: list[int] = []
        self.breaks = 0
        self._http = http
        self._url = url
        self._clock = clock
        self._arrived = asyncio.Event()

    async def run(self) -> None:
        while True:
            with contextlib.suppress(*_FAULTS):
                await self._follow()
            self.breaks += 1
            await self._clock.sleep(PAUSE_SECONDS)

    async def _follow(self) -> None:
        headers = {"Last-Event-ID": str(self.numbers[-1] if self.numbers else 0)}
        limit = aiohttp.ClientTimeout(total=None)
        async with self._http.get(self._url, headers=headers, timeout=limit) as answer:
            answer.raise_for_status()
            async for line in answer.content:
                if line.startswith(b"data: "):
                    event: dict[str, Any] = json.loads(line[6:])
                    self.numbers.append(event["number"])
                    self._arrived.set()

    async def wait_for(self, number: int) -> None:
        """Wait until the event with this number, or a later one, has arrived."""
        while not self.numbers or self.numbers[-1] < number:
            self._arrived.clear()
            await self._arrived.wait()
