"""The proxy that delays a database passes on what it gets, and counts round trips."""

import asyncio
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from benchmarks.delay_proxy import DelayProxy, NoDelay, delay_proxy

ROUND_TRIP_MS = 20
"""Long enough for a busy machine to keep within 5 %."""


@pytest.fixture
async def proxy() -> AsyncIterator[DelayProxy]:
    """Yield a proxy in front of a server that answers each line with the same line."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async for line in reader:
            writer.write(line)
        writer.close()

    with tempfile.TemporaryDirectory() as folder:  # a socket's path is short
        async with (
            await asyncio.start_unix_server(answer, Path(folder) / ".s.PGSQL.5432"),
            delay_proxy(f"postgresql://postgres@/postgres?host={folder}") as running,
        ):
            yield running


async def ask(proxy: DelayProxy, *groups: list[bytes]) -> list[bytes]:
    """Send the lines of each group at once, and wait for their answers before the next; return the answers."""
    port = int(proxy.build_url("postgresql://postgres@/postgres").rpartition(":")[2].partition("/")[0])
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    answers: list[bytes] = []
    for group in groups:
        for line in group:
            writer.write(line)
        answers += [await reader.readline() for _ in group]
    writer.close()
    return answers


async def test_a_trip_is_what_a_client_sends_before_it_waits(proxy: DelayProxy) -> None:
    assert await proxy.set_round_trip(ROUND_TRIP_MS) == pytest.approx(ROUND_TRIP_MS, rel=0.05)
    await proxy.begin_count()
    lines = [[b"one\n"], [b"two\n", b"three\n"], [b"four" * 12_000 + b"\n"]]
    answers = await asyncio.gather(*(ask(proxy, *lines) for _ in range(2)))
    assert answers == [[line for group in lines for line in group]] * 2
    traffic = await proxy.count()
    assert traffic.trips == 2 * 3
    assert traffic.kept_ms > 0


async def test_without_a_compiler_there_is_no_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(NoDelay, match="no C compiler"):
        async with delay_proxy("postgresql://postgres@/postgres?host=/tmp"):
            pass
