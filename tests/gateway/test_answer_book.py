"""What is written down of questions for which ready answers are looked up, and what is not."""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from circadia.clock import SystemClock
from circadia.ids import NoteId
from circadia.records.bank import CaptureMode, Trust
from circadia.records.note import Note, NoteKind
from tests.gateway.bound_agent import CHAT, MESSAGES, RESPONSES, chat
from tests.gateway.readied import ASKED, OTHER, ReadyAnswerServer, question, readied

pytestmark = pytest.mark.usefixtures("unhurried")


async def frames(ann: ReadyAnswerServer) -> int:
    """Return of how many scopes there are frames."""
    await ann.at.server.answers.flush()
    bank = await ann.held()
    async with ann.store.begin_read() as tx:
        return sum(not each.why_not for each in await tx.answer_frames.find_recent_scopes(bank.id))


@pytest.mark.spec("ANS-07")
@pytest.mark.parametrize(
    ("agent", "bank"),
    [({"capture": False}, {}), ({"read_banks": ["memory"]}, {}), ({}, {"capture_mode": CaptureMode.EXPLICIT})],
)
async def test_where_nothing_may_be_kept_of_what_is_said_no_question_is_written(
    tmp_path: Path, agent: Mapping[str, Any], bank: Mapping[str, Any]
) -> None:
    async with readied(tmp_path) as ann:
        await ann.put(await ann.frame(chat(OTHER)))
        assert (await ann.ask(chat(ASKED))).outcome == "hit"
        assert len(await ann.uses()) == await frames(ann) == 1
        assert (await ann.at.rest("PATCH", "/sessions/default/agents/ann", {"policy": agent}))[0] == 200
        assert (await ann.at.rest("PATCH", "/banks/memory", {"policy": bank}))[0] == 200
        for _ in range(2):
            assert (await ann.ask(chat(ASKED))).outcome == "hit"
        assert (await ann.ask(chat(OTHER, temperature=0.5))).outcome == "miss"
        assert (len(await ann.uses()), await frames(ann)) == (1, 2), "a frame holds nothing of what is said"
        assert (await ann.counts())[0] == 3, "that there were calls is counted"


@pytest.mark.spec("ANS-01")
@pytest.mark.parametrize("gone", [{"speaker": "ann"}, {"speaker": "nobody"}])
async def test_a_frame_that_was_forgotten_is_written_again_with_the_next_call(
    tmp_path: Path, gone: Mapping[str, Any]
) -> None:
    async with readied(tmp_path) as ann:
        assert (await ann.ask(chat(OTHER))).outcome == "miss"
        assert await frames(ann) == 1
        assert (await ann.at.rest("POST", "/banks/memory/forget", gone))[0] == 200
        assert await frames(ann) == 0
        assert (await ann.ask(chat(OTHER))).outcome == "miss"
        assert await frames(ann) == 1


@pytest.mark.spec("SLEEP-20", "ANS-07")
@pytest.mark.parametrize("mode", ["serve", "hint"])
async def test_what_an_answer_rests_on_counts_as_given_to_the_agent_with_it(tmp_path: Path, mode: str) -> None:
    async with readied(tmp_path, answer_mode=mode) as ann:
        frame = await ann.frame(chat(OTHER))
        assert (await ann.at.rest("PATCH", "/sessions/default/agents/ann", {"policy": {"capture": False}}))[0] == 200
        for text in ("Zinc costs more than copper.", "Snow lies on Kebnekaise."):
            assert (await ann.at.rest("POST", "/banks/memory/episodes", {"text": text, "importance": 0.5}))[0] == 201
        episodes = (await ann.episodes())[-2:]
        at = SystemClock().now()
        async with ann.store.begin_write() as tx:
            for each in episodes:
                note = Note(
                    id=NoteId(f"not_{each.number}"), number=0, bank_id=each.bank_id, kind=NoteKind.CONSOLIDATION,
                    text=each.text, evidence=(each.id,), trust=Trust.PERSON, at=at, created_at=at, terms=each.terms,
                )  # fmt: skip
                await tx.notes.add(note)
            first, other = await tx.notes.find_all(frame.bank_id)
        await ann.put(frame, shown={"notes": {first.number: 1.0}, "episodes": {episodes[0].number: 1.0}})
        assert (await ann.ask(chat(OTHER))).outcome == "miss"
        await ann.at.server.answers.flush()
        assert await given(ann) == [None, None]
        assert (await ann.ask(chat(ASKED))).outcome == {"serve": "hit", "hint": "hint"}[mode]
        await ann.at.server.answers.flush()
        used, unused = await given(ann)
        assert (used is not None and used >= at, unused) == (True, None)
        assert other.text == episodes[1].text


async def given(ann: ReadyAnswerServer) -> list[datetime | None]:
    """Return when each note was given to an agent last."""
    bank = await ann.held()
    async with ann.store.begin_read() as tx:
        return [each.used_at for each in await tx.notes.find_all(bank.id)]


@pytest.mark.spec("ANS-07")
async def test_a_question_with_a_secret_in_it_is_answered_and_not_written_down(tmp_path: Path) -> None:
    secret = "Is the password: hunter22 still right for the garden gate?"
    async with readied(tmp_path) as ann:
        frame = await ann.frame(chat(OTHER))
        await ann.put(frame)
        await ann.put(frame, secret, "Yes, it is.")
        assert (await ann.ask(chat(secret))).outcome == "hit"
        assert (await ann.ask(chat(ASKED))).outcome == "hit"
        assert [each.question for each in await ann.uses()] == [ASKED]


@pytest.mark.spec("ANS-01")
async def test_where_no_model_asks_ahead_no_frame_is_written(tmp_path: Path) -> None:
    async with readied(tmp_path, sections={"sleeptime": {"model": "none"}}) as ann:
        assert (await ann.ask(chat(OTHER))).outcome == "miss"
        assert await frames(ann) == 0
        assert (await ann.counts())[2] == 1


@pytest.mark.spec("ANS-03")
@pytest.mark.parametrize("path", [CHAT, RESPONSES, MESSAGES])
async def test_a_streamed_ready_answer_takes_no_tokens_from_a_budget(tmp_path: Path, path: str) -> None:
    async with readied(tmp_path, max_tokens_per_day=9_000) as ann:
        await ann.put(await ann.frame(question(OTHER, path=path), path=path))
        for _ in range(4):
            assert (await ann.ask(question(path=path, stream=True), path=path)).outcome == "hit"
        await ann.at.server.journal.flush()
        async with ann.store.begin_read() as tx:
            agent = await tx.agents.get((await ann.uses())[0].scope.agent_id)
            assert agent is not None
            spent = await tx.calls.sum_day(agent, datetime.now(UTC))
        ready = next(each for each in await ann.at.usage("tier") if each["key"] == "ready")
        assert (ready["calls"], ready["input_tokens"], ready["output_tokens"], ready["unpriced"]) == (4, 0, 0, 0)
        hot = next(each for each in await ann.at.usage("tier") if each["key"] == "hot")
        assert spent.tokens == hot["input_tokens"] + hot["output_tokens"]


HARMLESS = {
    "user-agent": "curl/8", "x-stainless-retry-count": "1", "x-stainless-os": "Linux", "x-request-id": "r1",
    "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "idempotency-key": "k1",
    "x-circadia-trust": "person", "forwarded": "for=1.2.3.4", "x-forwarded-for": "1.2.3.4", "accept": "*/*",
    "sec-fetch-mode": "cors", "x-b3-traceid": "1", "cache-control": "max-age=0", "cf-ray": "8",
}  # fmt: skip


@pytest.mark.spec("ANS-06")
async def test_headers_that_may_change_an_answer_are_part_of_its_scope_and_unknown_ones_are_not_kept(
    tmp_path: Path,
) -> None:
    async with readied(tmp_path) as ann:
        await ann.put(await ann.frame(chat(OTHER)))
        assert (await ann.ask(chat(ASKED), headers=HARMLESS)).outcome == "hit"
        assert await frames(ann) == 1
        for name, value in {"x-persona": "pirate", "helicone-prompt-id": "p7", "x-goog-user-project": "p"}.items():
            got = await ann.ask(chat(ASKED), headers={name: value})
            assert got.outcome == "miss", name
            assert (name, value) in ann.at.upstream.requests[-1].headers
        assert await frames(ann) == 1, "nobody knows what is in them"
        kept = {"openai-organization": "org-1", "accept-language": "fr", "openai-beta": "assistants=v2"}
        for name, value in kept.items():
            frame = await ann.frame(chat(OTHER), headers={name: value})
            assert frame.headers == ((name, value),)
            assert (await ann.ask(chat(ASKED), headers={name: value})).outcome == "miss"


@pytest.mark.spec("SLEEP-02", "ANS-01")
async def test_a_pass_that_is_asked_for_sees_the_call_that_was_answered_just_before(tmp_path: Path) -> None:
    async with readied(tmp_path) as ann:
        for number in (1, 2, 3):
            ann.at.upstream.next(text=f"The answer has the number {number}.")
            assert (await ann.ask(chat(f"{OTHER} {number}"), waits=False)).outcome == "miss"
            status, run = await ann.at.rest("POST", "/banks/memory/passes", {})
            assert status == 202, run
            days = (await ann.at.rest("GET", "/banks/memory/answers/stats"))[1]["days"]
            missed = sum(day["misses"] for day in days)
            assert (missed, run["upto"]) == (number, 2 * number), "its question, and its turn of two episodes"
            assert (await ann.at.rest("POST", f"/passes/{run['id']}/cancel"))[0] == 200
