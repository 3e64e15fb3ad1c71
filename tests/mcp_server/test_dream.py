"""The prompt `dream`: a person asks for a pass through an agent's client; gates and walls hold for it."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from mcp.shared.exceptions import MCPError

from circadia.records.bank import Bank
from circadia.records.sleep_pass import Pass, PassStatus
from tests.mcp_server.stand import ERAS, Stand, refused, stand, structured


async def bank_of(at: Stand, name: str) -> Bank:
    async with at.store.begin_read() as tx:
        bank = await tx.banks.get_by_name(name)
    assert bank is not None
    return bank


async def passes(at: Stand, bank: str = "own") -> Sequence[Pass]:
    async with at.store.begin_read() as tx:
        found = await tx.banks.get_by_name(bank)
        return [] if found is None else await tx.passes.find_all(bank_id=found.id)


async def dreamt(at: Stand, who: str = "ann", *, era: str = "legacy", name: str = "dream", **given: str) -> str:
    """Return what the prompt says."""
    async with at.client(who, era) as client:
        found = await client.get_prompt(name, given)
    (message,) = found.messages
    assert message.role == "user"
    return getattr(message.content, "text", "")


async def refusal(at: Stand, who: str = "ann", *, name: str = "dream", **given: str) -> str:
    async with at.client(who) as client:
        with pytest.raises(MCPError) as error:
            await client.get_prompt(name, given)
    return error.value.message


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.spec("SLEEP-02")
async def test_the_prompt_asks_for_a_pass_over_the_agent_s_own_bank(tmp_path: Path, era: str) -> None:
    async with stand(tmp_path) as at:
        await at.agent("ann", policy={"bank": "own"})
        await at.bank("own")
        async with at.client("ann", era) as client:
            (prompt,) = (await client.list_prompts()).prompts
        assert prompt.name == "dream"
        assert {each.name for each in prompt.arguments or ()} == {"instructions", "dry_run", "bank", "folder", "user"}
        told = await dreamt(at, era=era, instructions="Keep the dates.", dry_run="true")
        (run,) = await passes(at)
        assert (run.status, run.by, run.instructions, run.dry_run) == (
            PassStatus.PENDING, "ann", "Keep the dates.", True,
        )  # fmt: skip
        assert run.id in told
        assert "dry run" in told
        assert "Keep the dates" not in told
        assert "has not ended" in await refusal(at)
        assert len(await passes(at)) == 1


@pytest.mark.spec("SLEEP-02", "SLEEP-03")
async def test_an_agent_s_wish_keeps_to_the_gates_and_the_operator_s_does_not(tmp_path: Path) -> None:
    async with stand(tmp_path) as at:
        await at.agent("ann", policy={"bank": "own"})
        await at.bank("own")
        bank = await bank_of(at, "own")
        async with at.store.begin_write() as tx:
            await tx.sleep_states.put(replace(await tx.sleep_states.get(bank.id), paused_by="operator"))
        assert "paused by operator" in await refusal(at)
        assert not await passes(at)
        assert "is asked for" in await dreamt(at, "operator", bank="own")


@pytest.mark.spec("SLEEP-02")
async def test_other_banks_stay_shut_and_one_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    async with stand(tmp_path) as at:
        await at.agent("ann", policy={"bank": "own", "write_banks": ["also"], "read_banks": ["team"]})
        await at.agent("bob")
        for name in ("team", "others", "also"):
            await at.bank(name)
        assert "holds nothing yet" in await refusal(at)
        assert "may only read" in await refusal(at, bank="team")
        assert "is not one of 'ann'" in await refusal(at, bank="others")
        assert "has no bank" in await refusal(at, "bob")
        assert "name a bank" in await refusal(at, "operator")
        async with at.store.begin_read() as tx:
            assert await tx.banks.get_by_name("own") is None
        assert "'also'" in await dreamt(at, bank="also")


@pytest.mark.spec("SLEEP-02")
async def test_a_template_takes_the_end_user(tmp_path: Path) -> None:
    async with stand(tmp_path) as at:
        await at.agent("ann", policy={"bank": "t-{user}"})
        async with at.client("ann") as client:
            await client.call_tool("remember", {"text": "Eve likes tea.", "user": "eve"})
        assert "'t-eve'" in await dreamt(at, user="eve")
        assert "end user" in await refusal(at)


@pytest.mark.spec("SLEEP-02")
async def test_a_bad_argument_is_refused_and_begins_nothing(tmp_path: Path) -> None:
    async with stand(tmp_path) as at:
        await at.agent("ann", policy={"bank": "own"})
        await at.bank("own")
        assert "there is 'dream'" in await refusal(at, name="nap")
        assert "did you mean 'instructions'" in await refusal(at, instruction="x")
        assert "10000 characters" in await refusal(at, instructions="x" * 10_001)
        assert "10000 characters" in await refusal(at, instructions="a\x00b")
        assert "'true' or 'false'" in await refusal(at, dry_run="maybe")
        assert not await passes(at)


@pytest.mark.spec("SLEEP-27", "MEM-10")
async def test_a_sleep_time_agent_alone_rewrites_blocks_and_falls_asleep_when_it_has_finished(tmp_path: Path) -> None:
    async with stand(tmp_path) as at:
        await at.agent("ann", policy={"bank": "own"})
        dreamer = await at.agent("dreamer", policy={"bank": "own", "sleeptime_agent": True})
        await at.bank("own", human="Ann lives in Lisbon.")
        async with at.client("ann") as ann:
            names = {each.name for each in (await ann.list_tools()).tools}
            assert not names & {"memory_rethink", "memory_finish_edits"}
            with pytest.raises(MCPError, match="Unknown tool"):
                await ann.call_tool("memory_rethink", {"label": "human", "value": "x"})
            assert "hot_edits" in refused(await ann.call_tool("memory_insert", {"label": "human", "text": "x"}))
        async with at.client("dreamer") as client:
            assert {"memory_rethink", "memory_finish_edits"} <= {
                each.name for each in (await client.list_tools()).tools
            }
            given = {"label": "human", "value": "Ann lives in Porto.", "expected_version": 1, "why": "she moved"}
            made = structured(await client.call_tool("memory_rethink", given))
            assert (made["version"], made["value"]) == (2, "Ann lives in Porto.")
            assert "conflict" in refused(await client.call_tool("memory_rethink", given))
            assert "shorten" in refused(
                await client.call_tool("memory_rethink", {"label": "human", "value": "x" * 9000})
            )
            made = structured(await client.call_tool("memory_rethink", {"label": "plans", "value": "A trip."}))
            assert made["version"] == 1
            assert structured(await client.call_tool("memory_finish_edits", {})) == {"sleeping": True}
        assert (await at.row(dreamer)).asleep
