"""Budgets and the ledger of model calls as agents and operators see them."""

import asyncio
from pathlib import Path

import pytest

from tests.interaction.live import CHAT, live


@pytest.mark.setting("defaults.max_calls_per_day")
@pytest.mark.spec("GATE-66")
async def test_a_budget_of_calls_is_exact_with_many_at_once_and_told_before_the_hold(tmp_path: Path) -> None:
    async with live(tmp_path) as at:
        token = await at.agent(max_calls_per_day=5)
        statuses = [status for status, _ in await asyncio.gather(*(at.answered(token) for _ in range(20)))]
        assert sorted(statuses) == [200] * 5 + [429] * 15
        assert len(at.upstream.requests) == 5
        await at.sleeping(True)
        async with asyncio.timeout(10), at.call(token) as response:
            assert (response.status, response.headers["x-should-retry"]) == (429, "false")
            assert "max_calls_per_day (5)" in (await response.json())["error"]["message"]


@pytest.mark.spec("GATE-66")
async def test_held_calls_count_against_the_budget_and_a_dropped_one_gives_its_place_back(tmp_path: Path) -> None:
    async with live(tmp_path) as at:
        token = await at.agent(max_calls_per_day=2)
        await at.sleeping(True)
        held = [asyncio.create_task(at.called(token, CHAT)) for _ in range(2)]
        await at.held(2)
        async with at.call(token) as response:
            assert response.status == 429
        held[0].cancel()
        await at.held(1)
        held.append(asyncio.create_task(at.called(token, CHAT)))
        await at.held(2)
        await at.sleeping(False)
        await asyncio.gather(*held[1:])
        assert len(at.upstream.requests) == 2


@pytest.mark.setting("defaults.max_tokens_per_day", "defaults.max_usd_per_day")
@pytest.mark.spec("GATE-66")
async def test_tokens_and_money_are_reserved_by_estimate_and_settled_by_the_truth(tmp_path: Path) -> None:
    async with live(tmp_path) as at:
        tokens = await at.agent("ann", max_tokens_per_day=5_000)
        money = await at.agent("bob", max_usd_per_day=0.01)
        limited = {**CHAT, "max_tokens": 4_000}
        at.upstream.gate.clear()
        first = asyncio.create_task(at.called(tokens, limited))
        await at.upstream.wait_for_requests(1)
        async with at.call(tokens, body=limited) as response:
            assert response.status == 429, "the reservation in flight leaves no room"
        at.upstream.gate.set()
        await first
        await at.server.journal.flush()
        async with at.call(tokens, body=limited) as response:
            assert response.status == 200, "the truth was 2 tokens"
        dear = {**CHAT, "model": "gpt-4o", "max_tokens": 16_000}
        async with at.call(money, body=dear) as response:
            assert response.status == 429
        async with at.call(money, body={**dear, "max_tokens": 100}) as response:
            assert response.status == 200


@pytest.mark.spec("GATE-64", "GATE-67")
async def test_each_call_is_in_the_ledger_with_its_conversation_and_its_person(tmp_path: Path) -> None:
    async with live(tmp_path) as at:
        token = await at.agent()
        talk = [{"role": "user", "content": "hello"}]
        for text in ("two", "three"):
            async with at.call(token, body={**CHAT, "messages": talk, "user": "person-1"}) as response:
                said = (await response.json())["choices"][0]["message"]
            talk += [{"role": "assistant", "content": said["content"]}, {"role": "user", "content": text}]
        async with at.call(token, body=CHAT, headers={"x-circadia-conversation": "own"}) as response:
            await response.read()
        groups = await at.usage("conversation")
        assert sorted(group["calls"] for group in groups) == [1, 2]
        assert "own" in {group["key"] for group in groups}
        people = {group["key"]: group["calls"] for group in await at.usage("end_user")}
        assert people["person-1"] == 2
        ledger = (await at.usage())[0]
        assert (ledger["input_tokens"], ledger["unknown"], ledger["unpriced"]) == (5, 0, 0)
        assert ledger["cost_usd"] > 0


@pytest.mark.spec("GATE-66")
@pytest.mark.parametrize("status", [400, 422])
async def test_a_call_that_the_provider_refuses_gives_back_what_was_reserved(tmp_path: Path, status: int) -> None:
    async with live(tmp_path) as at:
        token = await at.agent(max_tokens_per_day=5_000)
        at.upstream.next(status=status, body={"error": {"message": "no such parameter"}})
        for expected in (status, 200):
            async with at.call(token, body={**CHAT, "max_tokens": 4_000}) as response:
                assert response.status == expected, await response.text()
            await at.server.journal.flush()


@pytest.mark.spec("GATE-66")
async def test_a_call_that_a_vanished_provider_may_have_carried_out_keeps_what_was_reserved(tmp_path: Path) -> None:
    async def vanish(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        provider.close()
        writer.transport.abort()

    provider = await asyncio.start_server(vanish, "127.0.0.1", 0)
    address = f"http://127.0.0.1:{provider.sockets[0].getsockname()[1]}"
    async with live(tmp_path, upstream={"base_url": address}) as at:
        token = await at.agent(max_tokens_per_day=5_000)
        limited = {**CHAT, "max_tokens": 4_000}
        assert b"cannot be reached" in await at.called(token, limited)
        await at.server.journal.flush()
        async with at.call(token, body=limited) as response:
            assert response.status == 429, "what was sent before may be paid for"


@pytest.mark.spec("GATE-66", "GATE-47")
async def test_a_caller_who_leaves_before_its_call_is_sent_gives_back_what_was_reserved(tmp_path: Path) -> None:
    async with live(tmp_path, upstream={"max_connections": 1}) as at:
        token = await at.agent(max_calls_per_day=2)
        at.upstream.gate.clear()
        first = asyncio.create_task(at.answered(token))
        await at.upstream.wait_for_requests(1)
        both = [asyncio.create_task(at.answered(token)) for _ in range(2)]
        (refused,), (waiting,) = await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        assert refused.result()[0] == 429, "the other one has reserved the last call, and waits for the connection"
        waiting.cancel()
        await at.sleeping(True)
        async with asyncio.timeout(60):
            while (await at.rest("GET", "/holds"))[1]["total"] == 0:  # its reservation is freed in the server
                if refused.done():
                    assert refused.result()[0] == 429
                    refused = asyncio.create_task(at.answered(token))
        await at.sleeping(False)
        at.upstream.gate.set()
        assert [(await each)[0] for each in (first, refused)] == [200, 200]
        assert len(at.upstream.requests) == 2


@pytest.mark.spec("WAKE-76", "GATE-66")
async def test_the_last_fifth_of_a_budget_is_told_once_by_the_call_that_reaches_it(tmp_path: Path) -> None:
    async with live(tmp_path) as at:
        token = await at.agent(max_calls_per_day=5)
        told: list[int] = []
        for _ in range(5):
            assert (await at.answered(token))[0] == 200
            told.append(len(await at.events("alert")))
        assert told == [0, 0, 0, 1, 1]
        (alert,) = await at.events("alert")
        assert alert["data"] == {"cause": "budget", "calls_today": 4, "max_calls_per_day": 5}
