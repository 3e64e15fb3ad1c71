"""Ready answers of a bank: list, test, drop, and statistics."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import timedelta
from enum import StrEnum
from typing import Annotated, Final

from fastapi import Query
from pydantic import BaseModel, Field

from circadia.agents.access import require_operator
from circadia.answers.cleanup import drop_ready_answers
from circadia.answers.lookup import LEAST_SIMILARITY
from circadia.answers.quality import are_answers_trusted, judged_use_limit
from circadia.answers.services import CheckedMatch, LookupOutcome, MatchKind, no_verdicts
from circadia.api.bodies import Body, Name
from circadia.api.memory.banks import User
from circadia.api.parts import ApiParts, Parts, Who, noun_router
from circadia.api.references import named_agent
from circadia.api.sleeptime.answer_views import AnswerView, answer_views
from circadia.errors import NotFound
from circadia.ids import AnswerId
from circadia.records.agent import Agent
from circadia.records.answer import Answer, AnswerMode, AnswerScope, DropReason
from circadia.records.bank import Bank
from circadia.stores.base import Tx

router = noun_router("answers")

MOST_CHARACTERS: Final = 100_000
"""Maximum length of a question; no lookup takes a longer one."""

AgentName = Annotated[str | None, Query(description="Only answers for this agent: `name` or `session:name`.")]


class AnswerPage(BaseModel):
    """Ready answers of a bank."""

    bank: str = Field(description="Name of the bank.")
    answers: list[AnswerView] = Field(description="Sorted by id, which is by time of creation.")
    after: str | None = Field(description="Value of `after` for the next page; null at the end.")


class TestedMatch(BaseModel):
    """An expected question that was compared with the tested one."""

    answer: str = Field(description="Id of the answer.")
    phrasing: str = Field(description="Expected question.")
    kind: MatchKind = Field(description="`exact` if the texts are equal, else `similar`.")
    outcome: LookupOutcome = Field(description="Outcome of this match alone.")
    similarity: float = Field(description="Cosine similarity of both questions; 1 if the texts are equal.")
    why: str = Field(description="Explanation in one line.")


class JudgeTestOutcome(StrEnum):
    """The verdict on similar questions."""

    YES = "yes"
    """Both ask the same: the answer is served."""
    NO = "no"
    """They do not ask the same, or the judge cannot decide."""
    NOT_ASKED = "not_asked"
    """A model decides only for a real call, not for a test."""


class TestView(BaseModel):
    """The expected outcome of a question."""

    bank: str = Field(description="Name of the bank.")
    agent: str = Field(description="Agent that would ask.")
    mode: AnswerMode = Field(description="How the agent's calls use ready answers.")
    trusted: bool = Field(description="Whether enough sampled answers were right to serve any.")
    outcome: LookupOutcome = Field(description="Outcome of the lookup; the mode may turn a hit into a hint.")
    judge: JudgeTestOutcome | None = Field(description="Verdict of the judge; null if it does not matter.")
    judge_confidence: float | None = Field(description="Confidence of the judge that both ask the same, if reported.")
    answer: AnswerView | None = Field(description="Answer found.")
    steps: list[str] = Field(description="Explanation of the outcome, one line per step.")
    matches: list[TestedMatch] = Field(description="Compared questions, best match first.")
    frames: int = Field(description="Number of searched frames of the agent.")


class DayView(BaseModel):
    """Counts of one day."""

    day: str = Field(description="Day in UTC.", examples=["2026-11-22"])
    served: int = Field(description="Calls served with an answer.")
    hints: int = Field(description="Calls that got a hint.")
    misses: int = Field(description="Questions without a match.")
    made: int = Field(description="Answers prepared.")
    used: int = Field(description="Answers used for the first time.")
    wasted: int = Field(description="Answers dropped without use.")
    wasted_tokens: int = Field(description="Tokens spent on them.")
    right: int = Field(description="Sampled uses that were right.")
    wrong: int = Field(description="Sampled uses that were wrong.")


class JudgeUsageView(BaseModel):
    """Use of the judge by an agent's recent lookups on this server."""

    agent: str = Field(description="Agent.", examples=["default:helper"])
    lookups: int = Field(description="Number of recent lookups, up to 100.")
    waits: int = Field(description="Number of them that waited for the judge, up to 10.")
    bar: float = Field(description="Minimum similarity for the next wait.")
    breaker_open: bool = Field(description="Whether the judge pauses for a minute after three timeouts in a row.")


class AnswerStats(BaseModel):
    """Statistics on a bank's ready answers."""

    bank: str = Field(description="Name of the bank.")
    live: int = Field(description="Number of valid ready answers.")
    hit_rate: float | None = Field(description="Share of questions served with an answer; null without questions.")
    hint_rate: float | None = Field(description="Share of questions that got a hint; null without questions.")
    precision: float | None = Field(description="Share of sampled uses that were right; null without samples.")
    samples: int = Field(description="Number of checked samples.")
    used_share: float | None = Field(description="Share of prepared answers that were used; null without answers.")
    wasted_tokens: int = Field(description="Tokens spent on unused answers.")
    judge: list[JudgeUsageView] = Field(description="Judge usage by agent; empty without a judge.")
    days: list[DayView] = Field(description="Counts by day.")


class TestBody(Body):
    """A question to test."""

    agent: Name = Field(description="Agent that would ask: `name` or `session:name`.", examples=["helper"])
    question: str = Field(description="Question.", max_length=MOST_CHARACTERS, examples=["When do you open?"])
    end_user: str | None = Field(None, description="End user, as the call would name them.", max_length=200)


class DroppedView(BaseModel):
    """The number of dropped answers."""

    bank: str = Field(description="Name of the bank.")
    dropped: int = Field(description="Number of dropped answers.")


@router.get("/banks/{bank}/answers")
async def list_answers(
    bank: str,
    who: Who,
    parts: Parts,
    user: User = None,
    agent: AgentName = None,
    after: Annotated[str | None, Query(description="Id of the last answer on the previous page.")] = None,
    limit: Annotated[int, Query(ge=1, le=1000, description="Maximum number of rows.")] = 100,
) -> AnswerPage:
    """List the ready answers of a bank, with why a lookup would not find some of them. Operator only."""
    require_operator(who)
    async with parts.store.begin_read() as tx:
        found_bank = await parts.memory.banks.get(tx, bank, user)
        agent_id = None if agent is None else (await named_agent(tx, who, agent)).id
        last = None if after is None else AnswerId(after)
        answers = await tx.answers.find_live(found_bank.id, agent_id=agent_id, after=last, limit=limit)
        views = await answer_views(tx, parts, found_bank, answers)
    return AnswerPage(bank=found_bank.name, answers=views, after=answers[-1].id if len(answers) == limit else None)


@router.get("/banks/{bank}/answers/stats")
async def answer_stats(
    bank: str,
    who: Who,
    parts: Parts,
    user: User = None,
    days: Annotated[int, Query(ge=1, le=366, description="Number of days to report.")] = 14,
) -> AnswerStats:
    """Show how often ready answers were used, right and wasted. Operator only."""
    require_operator(who)
    since = (parts.clock.now() - timedelta(days=days - 1)).date()
    async with parts.store.begin_read() as tx:
        found_bank = await parts.memory.banks.get(tx, bank, user)
        days_found = await tx.answers.find_days(found_bank.id, since=since)
        live = await tx.answers.count_live(found_bank.id, parts.clock.now())
        waits = await _judge_waits(tx, parts, found_bank)
    total = {name: sum(getattr(each, name) for each in days_found) for name in _COUNTS}
    questions = total["served"] + total["hints"] + total["misses"]
    judged = total["right"] + total["wrong"]
    return AnswerStats(
        bank=found_bank.name,
        live=live,
        hit_rate=total["served"] / questions if questions else None,
        hint_rate=total["hints"] / questions if questions else None,
        precision=total["right"] / judged if judged else None,
        samples=judged,
        used_share=total["used"] / total["made"] if total["made"] else None,
        wasted_tokens=total["wasted_tokens"],
        judge=waits,
        days=[
            DayView(day=each.day.isoformat(), **{name: getattr(each, name) for name in _COUNTS}) for each in days_found
        ],
    )


@router.get("/banks/{bank}/answers/{answer}")
async def show_answer(bank: str, answer: str, who: Who, parts: Parts, user: User = None) -> AnswerView:
    """Show a ready answer and its sources. Operator only."""
    require_operator(who)
    async with parts.store.begin_read() as tx:
        found_bank = await parts.memory.banks.get(tx, bank, user)
        ready = await _answer(tx, found_bank, answer)
        return (await answer_views(tx, parts, found_bank, [ready]))[0]


@router.delete("/banks/{bank}/answers/{answer}", status_code=204)
async def drop_answer(bank: str, answer: str, who: Who, parts: Parts, user: User = None) -> None:
    """Drop a ready answer: no process finds it from the next call on. Operator only."""
    require_operator(who)
    async with parts.store.begin_write() as tx:
        found_bank = await parts.memory.banks.get(tx, bank, user)
        ready = await _answer(tx, found_bank, answer)
        await drop_ready_answers(tx, found_bank.id, [ready.id], DropReason.BY_HAND, parts.clock.now())


@router.delete("/banks/{bank}/answers")
async def drop_answers(bank: str, who: Who, parts: Parts, user: User = None, agent: AgentName = None) -> DroppedView:
    """Drop all ready answers of a bank, or those of one agent. Operator only."""
    require_operator(who)
    async with parts.store.begin_write() as tx:
        found_bank = await parts.memory.banks.get(tx, bank, user)
        agent_id = None if agent is None else (await named_agent(tx, who, agent)).id
        dropped = 0
        while batch := await tx.answers.find_live(found_bank.id, agent_id=agent_id, limit=1000):
            await drop_ready_answers(
                tx, found_bank.id, [each.id for each in batch], DropReason.BY_HAND, parts.clock.now()
            )
            dropped += len(batch)
    return DroppedView(bank=found_bank.name, dropped=dropped)


@router.post("/banks/{bank}/answers/test")
async def try_answers(bank: str, asked: TestBody, who: Who, parts: Parts, user: User = None) -> TestView:
    """Show how a question would be answered, and why; this calls no model and changes nothing. Operator only."""
    require_operator(who)
    async with parts.store.begin_read() as tx:
        found_bank = await parts.memory.banks.get(tx, bank, user)
        agent = await named_agent(tx, who, asked.agent)
        end_user = (
            (asked.end_user or user or "") if found_bank.end_user is None else (asked.end_user or found_bank.end_user)
        )
        scopes = await tx.answers.find_scopes(found_bank.id, agent.id, end_user)
        view, open_ = await _test(tx, parts, found_bank, agent, scopes, asked.question)
    return await _decide(parts, agent, asked.question, view, open_)


async def _judge_waits(tx: Tx, parts: ApiParts, bank: Bank) -> list[JudgeUsageView]:
    if parts.judge is None:
        return []
    agents = {scope.agent_id for scope, _ in await tx.answers.find_recent_scopes(bank.id)}
    known = [agent for each in agents if (agent := await tx.agents.get(each)) is not None]
    return [
        JudgeUsageView(agent=agent.reference, **asdict(parts.judge.stats(agent.id)))
        for agent in sorted(known, key=lambda each: each.reference)
    ]


async def _test(
    tx: Tx, parts: ApiParts, bank: Bank, agent: Agent, scopes: Sequence[AnswerScope], question: str
) -> tuple[TestView, CheckedMatch | None]:
    """Search each frame; return the best result, and the match that a judge may still decide on."""
    uses = await tx.answers.find_uses(
        bank.id, agent_id=agent.id, judged=True, upto=parts.clock.now(), limit=judged_use_limit(parts.settings.answers)
    )
    judge = parts.judge
    by_scope: list[list[tuple[CheckedMatch, LookupOutcome, str]]] = []
    for scope in scopes:
        found = await parts.lookup.explain(tx, bank, scope, question)
        matches = [each.match for each in found]
        verdicts = await (no_verdicts(matches) if judge is None else judge.find_verdicts(tx, bank, question, matches))
        by_scope.append([
            (each, *_outcome(each, parts, verdict)) for each, verdict in zip(found, verdicts, strict=True)
        ])  # fmt: skip
    ranked = sorted((sorted(each, key=_rank) for each in by_scope if each), key=lambda each: _rank(each[0]))
    best = ranked[0] if ranked else []
    outcome = best[0][1] if best else LookupOutcome.MISS
    open_ = next((each for each, _, why in best if each.match.kind is MatchKind.SIMILAR and _is_open(each, why)), None)
    best_match = best[0][0] if outcome is not LookupOutcome.MISS else open_
    answer = None if best_match is None else best_match.answer
    view = TestView(
        bank=bank.name,
        agent=agent.reference,
        mode=agent.policy.answers,
        trusted=are_answers_trusted(uses, parts.settings.answers),
        outcome=outcome,
        judge=None,
        judge_confidence=None,
        steps=[],
        frames=len(scopes),
        matches=[_match(*each) for each in best],
        answer=None if answer is None else (await answer_views(tx, parts, bank, [answer]))[0],
    )
    return view, None if outcome is LookupOutcome.HIT else open_


async def _decide(parts: ApiParts, agent: Agent, question: str, view: TestView, open_: CheckedMatch | None) -> TestView:
    """Let the judge decide where a real call would; this may be slow, so no transaction is open."""
    if parts.judge is not None and open_ is not None:
        verdict = await parts.judge.try_once(agent, question, open_.match.phrasing)
        if verdict is None:
            view.judge = JudgeTestOutcome.NOT_ASKED
        else:
            view.judge = JudgeTestOutcome.YES if verdict.same else JudgeTestOutcome.NO
            view.outcome = LookupOutcome.HIT if verdict.same else view.outcome
            view.judge_confidence = None if verdict.confidence is None else round(verdict.confidence, 4)
    view.steps = list(_steps(view, open_, judged=parts.judge is not None))
    if view.outcome is LookupOutcome.MISS:
        view.answer = None
    return view


def _steps(view: TestView, open_: CheckedMatch | None, *, judged: bool) -> Iterator[str]:
    exact = next((each for each in view.matches if each.kind is MatchKind.EXACT), None)
    yield f"same text: {exact.why}" if exact is not None else "same text: no expected question has it"
    if exact is None or exact.outcome is LookupOutcome.MISS:
        similar = next((each for each in view.matches if each.kind is MatchKind.SIMILAR), None)
        yield f"similar: {similar.why}" if similar is not None else "similar: there is no other expected question"
        if view.judge is not None:
            yield f"judge: {_JUDGE_SAYS[view.judge]}"
        elif open_ is not None and not judged:
            yield "judge: there is none (`answers.check`, `sleeptime.model`)"
    yield f"so it is a {view.outcome.value}"


def _outcome(found: CheckedMatch, parts: ApiParts, verdict: bool | None) -> tuple[LookupOutcome, str]:
    """Return the outcome of a match alone, and why."""
    match, named = found.match, f"{found.match.phrasing!r}"
    if found.answer is None or found.why_void:
        return LookupOutcome.MISS, f"{named}, but {found.why_void}"
    if match.kind is MatchKind.SIMILAR:
        if match.conflict:
            return LookupOutcome.MISS, f"{named}, but they differ: {match.conflict}"
        if verdict is False:
            return LookupOutcome.MISS, f"{named}, but the judge said no before"
        if not verdict:
            near = f"{named}, similarity {match.similarity:.2f}"
            if parts.lookup.is_hint(match):
                return LookupOutcome.HINT, near
            if match.similarity < LEAST_SIMILARITY:
                return LookupOutcome.MISS, f"{near}, too little for a judge"
            return LookupOutcome.MISS, f"{near}, too little for a hint"
        named = f"{named}, of which the judge said yes before"
    if found.doubt:
        return LookupOutcome.HINT, f"{named}, but its answer is in doubt: {found.doubt}"
    return LookupOutcome.HIT, named


def _is_open(found: CheckedMatch, why: str) -> bool:
    """Return whether a judge may decide on a similar question."""
    match = found.match
    is_valid = found.answer is not None and not (found.why_void or found.doubt or match.conflict)
    return is_valid and match.similarity >= LEAST_SIMILARITY and "judge said" not in why


def _rank(compared: tuple[CheckedMatch, LookupOutcome, str]) -> tuple[int, float]:
    found, outcome, _ = compared
    return _ORDER[outcome], -found.match.similarity


def _match(found: CheckedMatch, outcome: LookupOutcome, why: str) -> TestedMatch:
    match = found.match
    return TestedMatch(
        answer=match.answer, phrasing=match.phrasing, kind=match.kind, outcome=outcome,
        similarity=round(match.similarity, 4), why=why,
    )  # fmt: skip


async def _answer(tx: Tx, bank: Bank, key: str) -> Answer:
    ready = await tx.answers.get(bank.id, AnswerId(key))
    if ready is None or ready.dropped:
        raise NotFound(
            f"bank {bank.name!r} has no ready answer {key!r}; `circadia answers list {bank.name}` lists them"
        )
    return ready


_COUNTS: Final = ("served", "hints", "misses", "made", "used", "wasted", "wasted_tokens", "right", "wrong")
_JUDGE_SAYS: Final = {
    JudgeTestOutcome.YES: "it says that both ask the same",
    JudgeTestOutcome.NO: "it does not say that both ask the same",
    JudgeTestOutcome.NOT_ASKED: "a model, which is asked once a call comes",
}
_ORDER: Final = {LookupOutcome.HIT: 0, LookupOutcome.HINT: 1, LookupOutcome.MISS: 2}
