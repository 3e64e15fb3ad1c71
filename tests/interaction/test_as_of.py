"""A bank asked as of a date, through a whole server: a fact, what a pass did when it was corrected, and a demotion."""

import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from circadia.sleeptime.operations.consolidate import ConsolidationAnswer
from circadia.sleeptime.operations.contradictions import ComparisonAnswer
from circadia.testing.rule_based_model import ANSWER_BUILDERS
from circadia.testing.upstream import MockUpstream
from tests.fixtures.leap_clock import LeapClock
from tests.interaction.live import ADMIN, KEY, Live, live

pytestmark = pytest.mark.spec("MEM-32")
DAY = 86_400
QUESTION = "Where does Ann live?"
NIGHT = {"operations": ["consolidate", "contradictions"], "wait_seconds": 60}


def reply(request: dict[str, Any]) -> str:
    content = request["messages"][-1]["content"]
    text = content if isinstance(content, str) else content[-1]["text"]
    schema = ComparisonAnswer if "\n## Compare n" in text else ConsolidationAnswer
    return ANSWER_BUILDERS[schema](text).model_dump_json()


@pytest.fixture(params=["sqlite", "postgres"])
def sections(request: pytest.FixtureRequest) -> dict[str, Any]:
    """The configuration of a server on each database."""
    url = request.getfixturevalue("postgres_url") if request.param == "postgres" else None
    model = {"upstream": "openai", "name": "gpt-4o-mini"}
    tier = {"when": "manual", "verify": "off", "model": model}
    sections: dict[str, Any] = {"sleeptime": tier, "banks": {"team": {}}, "memory": {"embedder": {"kind": "none"}}}
    return sections if url is None else {**sections, "server": {"database_url": url}}


async def ok(at: Live, method: str, path: str, body: object = None) -> Any:
    status, answer = await at.rest(method, f"/banks/team{path}", body)
    assert status < 300, answer
    return answer


def query(as_of: datetime | None, **more: str) -> str:
    return urlencode({"q": QUESTION, **more, **({} if as_of is None else {"as_of": as_of.isoformat()})})


async def recalled(at: Live, **arguments: object) -> Any:
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
    params = {"name": "recall", "arguments": {"bank": "team", **arguments}}
    async with at.tool(ADMIN, {**call, "params": params}) as answer:
        text = await answer.text()
    return json.loads(text[text.index("{") :])["result"]


async def found(at: Live, as_of: datetime | None) -> Mapping[str, bool]:
    """Return what a search finds and whether it is superseded; `recall` and a context must say the same."""
    hits = (await ok(at, "GET", f"/search?{query(as_of)}"))["hits"]
    said = {hit["text"]: hit["superseded"] for hit in hits}
    arguments = {"query": QUESTION, **({} if as_of is None else {"as_of": as_of.isoformat()})}
    result = await recalled(at, **arguments)
    assert {hit["content"]: hit["superseded"] for hit in result["structuredContent"]["hits"]} == said
    assert result["content"][0]["text"].count(", no longer valid") == sum(said.values())
    context = await ok(at, "GET", f"/context?{query(as_of)}")
    assert {hit["text"]: hit["superseded"] for hit in context["hits"]} == said
    for text, superseded in said.items():
        (line,) = [each for each in context["fitting"].splitlines() if each.endswith(f": {text}")]
        assert ("no longer valid" in line) == superseded
    return said


async def test_a_bank_tells_what_it_held_before_a_pass_corrected_it(tmp_path: Path, sections: dict[str, Any]) -> None:
    clock = LeapClock()
    async with MockUpstream(key=KEY, reply=reply) as provider:
        async with live(tmp_path, clock=clock, provider=provider, **sections) as at:
            begin = clock.now()
            clock.leap(DAY)
            for text in ("I live in Faro.", "So I live in Faro."):
                await ok(at, "POST", "/episodes", {"text": text, "speaker": "Ann"})
            await ok(at, "PUT", "/blocks/human", {"value": "Ann lives in Faro."})
            first = await ok(at, "POST", "/passes", NIGHT)
            assert first["counts"]["add_note"] == 1, first
            clock.leap(9 * DAY)
            between = clock.now()
            held = await found(at, None)
            ((faro, _),) = [pair for pair in held.items() if pair[0] not in ("I live in Faro.", "So I live in Faro.")]
            assert not any(held.values())
            clock.leap(10 * DAY)
            await ok(at, "POST", "/episodes", {"text": "I live in Porto.", "speaker": "Ann"})
            await ok(at, "POST", "/episodes", {"text": "Now I live in Porto.", "speaker": "Ann"})
            corrected = clock.now()
            clock.leap(DAY)
            second = await ok(at, "POST", "/passes", NIGHT)
            assert second["counts"]["retire_note"] >= 1, second
            await ok(at, "PUT", "/blocks/human", {"value": "Ann lives in Porto."})
            (note,) = [each for each in (await ok(at, "GET", "/notes?state=retired"))["notes"] if each["text"] == faro]
            assert (note["valid_from"], note["retired_at"] > note["valid_to"]) == (note["at"], True)
            assert datetime.fromisoformat(note["valid_to"]) <= corrected
            await check(at, begin, between, corrected, faro, held)
        async with live(tmp_path, clock=clock, provider=provider, **sections) as at:
            await check(at, begin, between, corrected, faro, held)
            status, _ = await at.rest("POST", f"/passes/{second['id']}/undo", {})
            assert status < 300
            notes = (await ok(at, "GET", "/notes"))["notes"]
            assert {each["text"]: each["valid_to"] for each in notes}[faro] is None, "it holds again"
            assert faro in await found(at, None)


async def check(
    at: Live, begin: datetime, between: datetime, corrected: datetime, faro: str, held: Mapping[str, bool]
) -> None:
    assert await found(at, begin) == {}
    assert await found(at, between) == held
    scores = [hit["score"] for hit in (await ok(at, "GET", f"/search?{query(between)}"))["hits"]]
    assert (len(scores), scores) == (3, sorted(scores, reverse=True))
    (hit,) = (await ok(at, "GET", f"/search?{query(between, layer='notes')}"))["hits"]
    assert (hit["text"], hit["valid_to"] is None, hit["times"]) == (faro, False, 1)
    now = await found(at, None)
    assert await found(at, corrected) == now, "it was over when its end was said, not when a pass read of that"
    assert faro not in now
    assert {text for text, superseded in now.items() if superseded} == {"I live in Faro.", "So I live in Faro."}
    for moment, city in ((None, "Porto"), (between, "Faro")):
        assert (await ok(at, "GET", f"/context?{query(moment)}"))["stable"].endswith(f"Ann lives in {city}.")
    assert (await ok(at, "GET", f"/context?{query(begin)}"))["stable"] == ""


async def test_a_demotion_counts_from_its_time_on(tmp_path: Path, sections: dict[str, Any]) -> None:
    clock = LeapClock()
    async with live(tmp_path, clock=clock, **sections) as at:
        episode = await ok(at, "POST", "/episodes", {"text": "Ann lives in Faro.", "speaker": "ben"})
        for _ in range(2):
            await ok(at, "POST", "/episodes", {"text": "Ann has to live near the sea.", "speaker": "ben"})
            clock.leap(DAY)
        before = clock.now()
        clock.leap(DAY)
        await ok(at, "POST", f"/episodes/{episode['id']}/stale", {"evidence": "a call", "reason": "she moved"})
        both = {"Ann lives in Faro.": False, "Ann has to live near the sea.": False}
        assert await found(at, before) == both
        assert await found(at, None) == await found(at, clock.now()) == {**both, "Ann lives in Faro.": True}
        hits = (await ok(at, "GET", f"/search?{query(None)}"))["hits"]
        times = [(hit["text"], hit["times"]) for hit in hits]
        assert [number for text, number in times if "sea" in text] == [2, 1], "the newest tells how often"
        assert ("Ann lives in Faro.", 1) in times
        for as_of, superseded in ((None, True), (before.isoformat(), False)):
            opened = await recalled(at, episode=episode["id"], **({} if as_of is None else {"as_of": as_of}))
            assert [hit["superseded"] for hit in opened["structuredContent"]["hits"]] == [superseded]


async def test_a_future_or_malformed_date_is_refused(tmp_path: Path, sections: dict[str, Any]) -> None:
    clock = LeapClock()
    async with live(tmp_path, clock=clock, **sections) as at:
        await ok(at, "POST", "/episodes", {"text": "Ann lives in Faro."})
        tomorrow = clock.now() + timedelta(days=1)
        for path in ("search", "context"):
            for date, why in ((tomorrow.isoformat(), "in the future"), ("then", "write a date or a time")):
                status, problem = await at.rest("GET", f"/banks/team/{path}?{urlencode({'q': 'Faro', 'as_of': date})}")
                assert (status, why in json.dumps(problem)) == (422, True), problem
        status, _ = await at.rest("GET", f"/banks/team/context?{urlencode({'as_of': tomorrow.isoformat()})}")
        assert status == 422
        for date, why in ((tomorrow.isoformat(), "in the future"), ("then", "write a date or a time")):
            result = await recalled(at, query="Faro", as_of=date)
            assert (result["isError"], why in json.dumps(result)) == (True, True), result
