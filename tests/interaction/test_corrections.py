"""An agent corrects and forgets what its end user said, if its policy says so; a person can undo it."""

import asyncio
import json
import re
import sqlite3
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.scene import two_servers
from tests.fixtures.leap_clock import LeapClock
from tests.gateway.bound_agent import chat
from tests.interaction.live import CHAT, Live, live

DAY = 86_400
A_DAY_S_CORRECTIONS = 20
ANSWER = "That is a name to remember."
TOOLS = {"memory_correct", "memory_forget"}
EVE = {"x-circadia-user": "eve"}
PERSONAL = {"bank": "support-{user}", "preset": "personal"}

pytestmark = pytest.mark.spec("MEM-39")


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest) -> dict[str, object]:
    """The configuration of a database of its own."""
    postgres = request.param == "postgres"
    return {"server": {"database_url": request.getfixturevalue("postgres_url")}} if postgres else {}


async def tell(at: Live, token: str, text: str, headers: Mapping[str, str] = EVE) -> None:
    """Say something at the gateway, and let it be kept."""
    at.upstream.next(text=ANSWER)
    async with at.call(token, body={**CHAT, "messages": chat(text)["messages"]}, headers=headers) as response:
        assert response.status == 200, await response.read()
    await at.server.exchanges.flush()
    await at.server.journal.flush()  # whose conversation it is


async def ask(at: Live, token: str, method: str, params: Mapping[str, object]) -> Any:
    async with at.tool(token, {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}) as response:
        text = await response.text()
    data = next((line[5:] for line in text.splitlines() if line.startswith("data:")), text)
    return json.loads(data)["result"]


async def use(at: Live, token: str, tool: str, **arguments: object) -> dict[str, Any] | str:
    """Return the answer of a tool, or the text of its refusal."""
    result = await ask(at, token, "tools/call", {"name": tool, "arguments": arguments})
    return result["content"][0]["text"] if result.get("isError") else result["structuredContent"]


async def listed(at: Live, token: str) -> set[str]:
    return {tool["name"] for tool in (await ask(at, token, "tools/list", {}))["tools"]} & TOOLS


async def ok(at: Live, method: str, path: str, body: object = None) -> Any:
    status, answer = await at.rest(method, path, body)
    assert status < 300, answer
    return answer


@dataclass
class Eve:
    """A server, its agent `ann`, and what her end user Eve has in her bank."""

    at: Live
    token: str
    user: str = "eve"
    bank: str = "support-eve"

    async def episodes(self) -> dict[str, str]:
        """Return ids by text."""
        rows = (await ok(self.at, "GET", f"/banks/{self.bank}/episodes"))["episodes"]
        return {row["text"]: row["id"] for row in rows}

    async def use(self, tool: str, **arguments: object) -> dict[str, Any] | str:
        return await use(self.at, self.token, tool, **arguments, user=self.user)

    async def events(self, *types: str) -> list[dict[str, Any]]:
        return [event["data"] for event in await self.at.events(*types)]


@asynccontextmanager
async def eve(folder: Path, said: tuple[str, ...], sections: Mapping[str, Any]) -> AsyncGenerator[Eve]:
    given: dict[str, Any] = {"sleeptime": {"enabled": False}, **sections}
    async with live(folder, **given) as at:
        her = Eve(at, await at.agent("ann", **PERSONAL))
        for text in said:
            await tell(at, her.token, text)
        yield her


@pytest.mark.setting("defaults.correct_memory", "defaults.preset")
async def test_only_an_agent_whose_policy_says_so_has_the_tools_and_another_learns_what_is_missing(
    tmp_path: Path,
) -> None:
    policies: dict[str, dict[str, Any]] = {
        "bare": {"preset": None, "correct_memory": None},
        "personal": {},
        "granted": {"preset": None, "correct_memory": True},
        "refused": {"correct_memory": False},
        "elsewhere": {"tools": ["sleep"]},
    }
    async with live(tmp_path, defaults={"preset": "personal", "bank": "team", "correct_memory": None}) as at:
        tokens = {name: await at.agent(name, **{"bank": "team", "preset": "personal", **policy})
                  for name, policy in policies.items()}  # fmt: skip
        has = {name: await listed(at, token) for name, token in tokens.items()}
        assert has == {
            "bare": set(), "personal": TOOLS, "granted": TOOLS, "refused": set(), "elsewhere": set(),
        }  # fmt: skip
        for tool, more in (("memory_forget", {}), ("memory_correct", {"correction": "x"})):
            told = await use(at, tokens["refused"], tool, episode="epi_1", **more)
            assert str(told).startswith("forbidden: ")
            assert "`correct_memory: true`" in str(told)
    async with live(tmp_path, defaults={"correct_memory": True}, agents={"ann": {"token_env": "ANN"}},
                    environment={"ANN": "token-of-ann-in-the-tests-0123456789"}) as at:  # fmt: skip
        assert await listed(at, "token-of-ann-in-the-tests-0123456789") == TOOLS


async def test_what_an_agent_forgets_is_nowhere_until_a_person_restores_it(
    tmp_path: Path, database: dict[str, object]
) -> None:
    said = ("My boat is called Nora", "My sister lives in Riga")
    async with eve(tmp_path, said, database) as her:
        at, bank = her.at, f"/banks/{her.bank}"
        boat = (await her.episodes())[said[0]]
        before = await ok(at, "GET", f"{bank}/episodes/{boat}")
        block = {"value": "She has a boat.", "pinned": True}
        await ok(at, "PUT", f"{bank}/blocks/human", block)
        done = await her.use("memory_forget", episode=boat)
        assert isinstance(done, dict)
        assert (done["bank"], done["episode"], done["new"]) == ("support-eve", boat, True)
        assert await her.use("memory_forget", episode=boat) == {**done, "new": False}, "a repeat is the same"

        async def seen() -> list[bool]:
            """Return for each door whether it shows the episode."""
            search = await ok(at, "GET", f"{bank}/search?q=boat+Nora")
            context = await ok(at, "GET", f"{bank}/context?q=boat+Nora")
            recalled = await her.use("recall", query="boat Nora")
            headers = {"authorization": "Bearer operator-token-of-the-tests"}
            async with at.http.get(f"{at.url}/api/v1{bank}/export", headers=headers) as response:
                exported = await response.text()
            await tell(at, her.token, "What is my boat called?")
            sent = at.upstream.requests[-1].body.decode()
            listed_texts = json.dumps(await her.episodes())
            return ["Nora" in json.dumps(shown) for shown in (search, context, recalled, exported, sent, listed_texts)]

        assert await seen() == [False] * 6
        assert (await at.rest("GET", f"{bank}/episodes/{boat}"))[0] == 404
        (event,) = await her.events("forgotten")
        assert (event["by"], event["episodes"], event["episode"]) == ("ann", 1, boat)
        assert event["restorable_until"] == done["restorable_until"]

        (row,) = (await ok(at, "GET", f"{bank}/forgotten"))["episodes"]
        assert (row["id"], row["text"], row["speaker"], row["by"]) == (boat, said[0], "eve", "ann")
        for method, path in (("GET", f"{bank}/forgotten"), ("POST", f"{bank}/forgotten/{boat}/restore")):
            assert (await at.rest(method, path, token=her.token))[0] == 403, "only a person restores"
        restored = await ok(at, "POST", f"{bank}/forgotten/{boat}/restore")
        new = {"number", "stored_at", "embedded_by"}
        assert {key: value for key, value in restored.items() if key not in new} == {
            key: value for key, value in before.items() if key not in new
        }
        assert restored["number"] > before["number"], "the next pass reads it anew"
        assert await seen() == [True] * 6
        assert [each["episode"] for each in await her.events("restored")] == [boat]
        assert (await ok(at, "GET", f"{bank}/forgotten"))["episodes"] == []
        status, problem = await at.rest("POST", f"{bank}/forgotten/{boat}/restore")
        assert (status, "7 days" in problem["detail"]) == (404, True)


async def test_a_persons_forget_deletes_at_once_what_an_agent_has_forgotten_before(
    tmp_path: Path, database: dict[str, object]
) -> None:
    said = ("My boat is called Nora", "My sister lives in Riga", "My cat is called Tom")
    async with eve(tmp_path, said, database) as her:
        bank, ids = f"/banks/{her.bank}", await her.episodes()
        for text in said:
            await her.use("memory_forget", episode=ids[text])
        assert len((await ok(her.at, "GET", f"{bank}/forgotten"))["episodes"]) == 3
        bodies: tuple[dict[str, Any], ...] = ({"ids": [ids[said[0]]]}, {"speaker": "eve"})
        for left, body in ((2, bodies[0]), (0, bodies[1])):
            for dry_run in (True, False):
                counts = await ok(her.at, "POST", f"{bank}/forget", {**body, "dry_run": dry_run})
                assert counts["episodes"] == (1 if left else 2)
            assert len((await ok(her.at, "GET", f"{bank}/forgotten"))["episodes"]) == left
        assert (await her.at.rest("POST", f"{bank}/forgotten/{ids[said[0]]}/restore"))[0] == 404
        assert set(await her.episodes()) == {ANSWER}
        await tell(her.at, her.token, "I like tea")
        assert isinstance(await her.use("memory_forget", episode=(await her.episodes())["I like tea"]), dict)
        await ok(her.at, "DELETE", bank)


async def test_a_forgotten_correction_is_not_repeated_by_the_demotion_of_what_is_kept_apart(
    tmp_path: Path, database: dict[str, object]
) -> None:
    async with eve(tmp_path, ("My boat is called Nora",), database) as her:
        bank, boat = f"/banks/{her.bank}", (await her.episodes())["My boat is called Nora"]
        done = await her.use("memory_correct", episode=boat, correction="It is called Zanzibar. " * 1_000)
        assert isinstance(done, dict)
        (stale,) = (await ok(her.at, "GET", f"{bank}/episodes/{boat}"))["stale"]
        assert len(stale["reason"]) == 200
        await her.use("memory_forget", episode=boat)
        await ok(her.at, "POST", f"{bank}/forget", {"ids": [done["correction"]]})
        assert (await ok(her.at, "POST", f"{bank}/forgotten/{boat}/restore"))["stale"] == []


async def test_an_agent_forgets_and_corrects_only_what_its_end_user_said(tmp_path: Path) -> None:
    async with eve(tmp_path, ("My boat is called Nora",), {}) as her:
        at = her.at
        ids = await her.episodes()
        answer = ids[ANSWER]
        await ok(at, "POST", f"/banks/{her.bank}/episodes", {"text": "Eve is difficult", "speaker": "bob"})
        bobs = (await her.episodes())["Eve is difficult"]

        async def tell_to(token: str, tool: str, episode: str, **more: object) -> str:
            correction = {"correction": "It is not so"} if tool == "memory_correct" else {}
            told = await use(at, token, tool, episode=episode, **correction, **more)
            return str(told if isinstance(told, str) else told["new"])

        for tool in sorted(TOOLS):
            for episode, speaker in ((answer, "'ann'"), (bobs, "'bob'")):
                told = await tell_to(her.token, tool, episode, user="eve")
                assert re.match(rf"forbidden: {speaker} said .* ask a person", told)
            told = await tell_to(her.token, tool, "epi_none", user="eve")
            assert re.match("not_found: .* `recall`", told)
            told = await tell_to(her.token, tool, ids["My boat is called Nora"], user="bob")
            assert told.startswith("not_found: "), "the bank of another end user does not have it"

        # Without a bank of each person: an agent that serves several may not, and the only person's name is not the
        # agent's to state.
        several = await at.agent("bea", bank="shared", preset="personal", multi_user=True)
        only = await at.agent("cid", bank="shared", preset="personal")
        await tell(at, several, "I am Eve and I have a boat")
        await tell(at, only, "I have a dog", headers={})
        await tell(at, only, "I have a cat", headers={"x-circadia-user": "dora"})
        shared = {row["text"]: row["id"] for row in (await ok(at, "GET", "/banks/shared/episodes"))["episodes"]}
        told = await tell_to(several, "memory_forget", shared["I am Eve and I have a boat"])
        assert re.match("forbidden: .* is shared", told)
        for user in ({}, {"user": "eve"}):
            told = await tell_to(only, "memory_forget", shared["I am Eve and I have a boat"], **user)
            assert told.startswith("forbidden: ")
        assert await tell_to(only, "memory_forget", shared["I have a dog"]) == "True"
        assert await tell_to(only, "memory_forget", shared["I have a cat"]) == "True", "it was said to this agent"
        reader = await at.agent("dan", read_banks=["shared"], preset="personal")
        told = await tell_to(reader, "memory_forget", shared["I am Eve and I have a boat"], bank="shared")
        assert re.match("forbidden: .* may only read", told)


async def test_a_correction_demotes_and_the_next_pass_takes_back_what_rested_on_it(
    tmp_path: Path, database: dict[str, object]
) -> None:
    said = ("My sister Olga lives in Riga",)
    passes = {"sleeptime": {"model": "none", "when": "manual"}}
    async with eve(tmp_path, said, {**database, **passes}) as her:
        at, bank = her.at, f"/banks/{her.bank}"
        wrong = (await her.episodes())[said[0]]
        lines = [
            {"type": "note", "id": "not_olga", "kind": "consolidation", "at": "2026-01-01T00:00:00Z",
             "text": "Olga lives in Riga.", "trust": "person", "evidence": [wrong],
             "created_at": "2026-01-01T00:00:00Z"},
        ]  # fmt: skip
        headers = {"authorization": "Bearer operator-token-of-the-tests"}
        body = "\n".join(map(json.dumps, lines)).encode()
        async with at.http.post(f"{at.url}/api/v1{bank}/import", data=body, headers=headers) as response:
            assert response.status == 200, await response.text()
        told = await her.use("memory_correct", episode="not_olga", correction="Olga lives in Lund")
        assert re.match(f"invalid_request: .*{wrong}", str(told)), "it says which episode to correct"

        done = await her.use("memory_correct", episode=wrong, correction="Olga lives in Lund, not in Riga")
        assert isinstance(done, dict)
        assert await her.use("memory_correct", episode=wrong, correction="Olga lives in Lund, not in Riga") == {
            **done, "new": False,
        }  # fmt: skip
        row = await ok(at, "GET", f"{bank}/episodes/{wrong}")
        (stale,) = row["stale"]
        assert (stale["by"], stale["evidence"], row["text"]) == ("ann", done["correction"], said[0])
        correction = await ok(at, "GET", f"{bank}/episodes/{done['correction']}")
        assert (correction["trust"], correction["speaker"], correction["metadata"]) == (
            "agent", "ann", {"corrects": wrong},
        )  # fmt: skip
        (event,) = await her.events("corrected")
        assert (event["episode"], event["correction"], event["by"]) == (wrong, done["correction"], "ann")

        notes = (await ok(at, "GET", f"{bank}/notes"))["notes"]
        assert [note["retired_at"] for note in notes] == [None]
        run = await ok(at, "POST", f"{bank}/passes", {})
        async with asyncio.timeout(60):
            while (await ok(at, "GET", f"/passes/{run['id']}"))["status"] in ("pending", "running"):
                await asyncio.sleep(0.05)
        (note,) = (await ok(at, "GET", f"{bank}/notes"))["notes"]
        assert note["retired_at"] is not None, "nothing that it rests on holds any more"
        # A person takes the correction back.
        undone = await ok(at, "DELETE", f"{bank}/episodes/{wrong}/stale/{done['correction']}")
        assert (undone["changed"], undone["stale"]) == (True, [])


async def test_after_seven_days_what_was_forgotten_cannot_be_restored_and_its_text_is_deleted(tmp_path: Path) -> None:
    clock = LeapClock()
    said = ("My boat is called Nora", "My cat is called Tom")
    async with eve(tmp_path, said, {"clock": clock}) as her:
        bank, ids = f"/banks/{her.bank}", await her.episodes()
        boat, cat = (ids[text] for text in said)
        await her.use("memory_forget", episode=boat)
        clock.leap(DAY)
        await her.use("memory_forget", episode=cat)
        clock.leap(6 * DAY)
        assert (await her.at.rest("POST", f"{bank}/forgotten/{boat}/restore"))[0] == 404
        listed_ids = [row["id"] for row in (await ok(her.at, "GET", f"{bank}/forgotten"))["episodes"]]
        assert listed_ids == [cat]
        async with asyncio.timeout(60):
            while kept_apart(tmp_path) != [cat]:
                clock.leap(600)
                await asyncio.sleep(0.05)
        assert (await ok(her.at, "POST", f"{bank}/forgotten/{cat}/restore"))["text"] == said[1]


def kept_apart(folder: Path) -> list[str]:
    """Return the ids of what the database keeps apart."""
    with closing(sqlite3.connect(folder / "circadia.db", timeout=60)) as database:
        return [row[0] for row in database.execute("SELECT id FROM forgotten_episodes")]


async def test_a_bank_keeps_what_was_forgotten_no_longer_than_its_episodes(tmp_path: Path) -> None:
    clock = LeapClock()
    sections = {"clock": clock, "banks": {"support-{user}": {"keep_days": 2}}}
    async with eve(tmp_path, ("My boat is called Nora",), sections) as her:
        await her.use("memory_forget", episode=(await her.episodes())["My boat is called Nora"])
        assert len(kept_apart(tmp_path)) == 1
        clock.leap(2 * DAY)
        async with asyncio.timeout(60):
            while kept_apart(tmp_path):
                clock.leap(600)
                await asyncio.sleep(0.05)


async def test_a_bank_takes_twenty_corrections_a_day_of_all_agents_at_all_gateways(
    tmp_path: Path, postgres_url: str
) -> None:
    async with two_servers(tmp_path, postgres_url, sleeptime={"enabled": False}) as servers:
        here = servers[0]
        tokens = [await here.agent(name, **PERSONAL) for name in ("ann", "bob")]
        await tell(here, tokens[0], "I like tea")
        for number in range(2 * A_DAY_S_CORRECTIONS):
            body = {"text": f"I like number {number}", "speaker": "eve"}
            await ok(here, "POST", "/banks/support-eve/episodes", body)
        rows = (await ok(here, "GET", "/banks/support-eve/episodes?limit=1000"))["episodes"]
        ids = [row["id"] for row in rows if row["text"].startswith("I like number")]

        async def change(number: int, episode: str) -> dict[str, Any] | str:
            tool, more = (("memory_forget", {}), ("memory_correct", {"correction": f"not {number}"}))[number % 2]
            at, token = servers[number // 2 % 2], tokens[number // 4 % 2]
            return await use(at, token, tool, episode=episode, user="eve", **more)

        answers = await asyncio.gather(*(change(number, episode) for number, episode in enumerate(ids)))
        done = [answer for answer in answers if isinstance(answer, dict)]
        refusals = {answer for answer in answers if isinstance(answer, str)}
        assert len(done) == A_DAY_S_CORRECTIONS
        (refusal,) = refusals
        assert refusal.startswith("limit_reached: ")
        assert "midnight" in refusal
        assert "circadia banks forget" in refusal
        events = await here.events("forgotten", "corrected")
        assert len(events) == A_DAY_S_CORRECTIONS
        left = (await ok(here, "GET", "/banks/support-eve/episodes?limit=1000"))["episodes"]
        forgotten = (await ok(here, "GET", "/banks/support-eve/forgotten"))["episodes"]
        corrected = [row for row in left if row["stale"]]
        corrections = [row for row in left if row["metadata"]]
        assert len(forgotten) + len(corrected) == A_DAY_S_CORRECTIONS
        assert len(corrections) == len(corrected), "a refused correction leaves nothing"
        repeated = await use(here, tokens[0], "memory_forget", episode=forgotten[0]["id"], user="eve")
        assert isinstance(repeated, dict), "a repeat counts nothing"
        restored = forgotten[0]["id"]
        await ok(here, "POST", f"/banks/support-eve/forgotten/{restored}/restore")
        again = await use(here, tokens[0], "memory_forget", episode=restored, user="eve")
        assert str(again).startswith("limit_reached: "), "what is restored was counted"


async def test_the_next_day_counts_anew(tmp_path: Path) -> None:
    clock = LeapClock()
    async with eve(tmp_path, ("My boat is called Nora",), {"clock": clock}) as her:
        for number in range(A_DAY_S_CORRECTIONS + 1):
            body = {"text": f"I like number {number}", "speaker": "eve"}
            await ok(her.at, "POST", f"/banks/{her.bank}/episodes", body)
        ids = [key for text, key in (await her.episodes()).items() if text.startswith("I like number")]
        answers = [await her.use("memory_forget", episode=episode) for episode in ids]
        assert [isinstance(answer, dict) for answer in answers] == [True] * A_DAY_S_CORRECTIONS + [False]
        clock.leap(DAY)
        assert isinstance(await her.use("memory_forget", episode=ids[-1]), dict)
