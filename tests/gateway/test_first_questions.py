"""The first question of an end user counts, and one that comes while answers are being loaded is told so."""

import asyncio
import threading
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from circadia.answers import lookup
from circadia.memory.embedding import bundled
from tests.gateway.bound_agent import bound, chat
from tests.gateway.readied import ASKED, OTHER, ReadyAnswerServer, readied
from tests.interaction.live import ADMIN


@pytest.mark.spec("ANS-01", "ANS-03")
@pytest.mark.usefixtures("unhurried")
@pytest.mark.parametrize("answer_mode", ["serve", "hint"])
async def test_the_first_call_of_an_end_user_is_looked_up_and_leaves_its_frame(
    tmp_path: Path, answer_mode: str
) -> None:
    async with readied(tmp_path, bank="support-{user}", multi_user=True, answer_mode=answer_mode) as ann:
        got = await ann.ask(chat(OTHER), headers={"x-circadia-user": "eve"})
        assert (got.status, got.outcome) == (200, "miss")
        await ann.at.server.answers.flush()
        bank = await ann.held("support-eve")
        async with ann.store.begin_read() as tx:
            (seen,) = await tx.answer_frames.find_recent_scopes(bank.id)
            assert seen.scope.end_user == "eve"
            (day,) = await tx.answer_uses.find_days(bank.id, since=bank.created_at.date())
            assert day.misses == 1


@pytest.mark.spec("ANS-03", "MEM-12")
@pytest.mark.usefixtures("unhurried")
async def test_no_bank_is_made_for_a_call_that_is_not_kept_or_whose_end_user_nobody_knows(tmp_path: Path) -> None:
    async with readied(
        tmp_path, bank="support-{user}", multi_user=True,
        others={"bob": {"bank": "support-{user}", "capture": False}},
    ) as ann:  # fmt: skip
        for token, headers in ((None, {}), ("token-of-agent-bob-in-the-tests-0123456789", {"x-circadia-user": "eve"})):
            got = await ann.ask(chat(OTHER), headers=headers, token=token)
            assert (got.status, got.outcome) == (200, None)
        async with ann.store.begin_read() as tx:
            assert [bank.name for bank in await tx.banks.find_all()] == ["memory"]


@pytest.mark.spec("ANS-03")
async def test_calls_that_come_while_answers_are_loaded_wait_a_moment_and_are_told_that_it_took_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with readied(tmp_path, inject=False) as ann:
        await ann.put(await ann.frame(chat(OTHER)))
    loaded, load = threading.Event(), bundled._load  # pyright: ignore[reportPrivateUsage]

    def slowly() -> object:
        assert loaded.wait(60)
        return load()

    async def timed(futures: Iterable[asyncio.Future[Any]], *, timeout: float | None = None) -> object:
        timeouts.append(timeout)
        return await wait(futures, timeout=timeout)

    timeouts, wait = list[float | None](), asyncio.wait
    monkeypatch.setattr(bundled, "_load", slowly)
    monkeypatch.setattr(lookup, "asyncio", SimpleNamespace(**{**vars(asyncio), "wait": timed}))
    async with bound(tmp_path, answer_mode="serve", inject=False) as ann:

        async def asked() -> tuple[str | None, str | None]:
            async with ann.at.call(ann.token, body=chat(ASKED)) as response:
                await response.read()
                return response.headers.get("x-circadia-answer"), response.headers.get("x-circadia-answer-reason")

        try:
            assert await asyncio.gather(*(asked() for _ in range(8))) == [("miss", "loading")] * 8
            assert 0.1 < max(each or 60 for each in timeouts) <= 0.2
        finally:
            loaded.set()
        headers = {"authorization": f"Bearer {ADMIN}"}
        async with ann.at.http.get(f"{ann.at.url}/metrics", headers=headers) as response:
            assert 'circadia_answers_total{outcome="miss",way="loading"} 8.0' in await response.text()
        server = ReadyAnswerServer(ann.at, ann.token, ann.store)
        async with asyncio.timeout(60):
            while True:
                await ann.at.server.exchanges.flush()
                await server.read()
                if (told := await asked())[1] != "loading":
                    break
        assert told == ("hit", None)
