"""Ready answers of a bank: what is expected, why a question would be answered or not, and what came of it."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import timedelta
from enum import StrEnum
from typing import Annotated, Final

from fastapi import Query
from pydantic import BaseModel, Field

from circadia.agents.access import require_operator
from circadia.answers.index import MatchKind
from circadia.answers.lookup import LEAST_SIMILARITY, CheckedMatch, LookupOutcome
from circadia.answers.quality import are_answers_trusted, judged_use_limit
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
from circadia.sleeptime.answers.cleanup import drop_ready_answers
from circadia.stores.base import Tx

router = noun_router("answers")

MOST_CHARACTERS: Final = 100_000
"""Of a question; a longer one is never looked for."""

AgentName = Annotated[str | None, Query(description="Those of this agent only: `name` or `session:name`.")]


class AnswerPage(BaseModel):
    """Ready answers of a bank."""

    bank: str = Field(description="The bank's name.")
    answers: list[AnswerView] = Field(description="By id, which is by the time they were made.")
    after: str | None = Field(description="The last one, if there may be more: `after` of the next page.")


class TestedMatch(BaseModel):
    """An expected question that was compared with the one that is tested."""

    answer: str = Field(description="Id of its answer.")
    phrasing: str = Field(description="The expected question.")
    kind: MatchKind = Field(description="`exact` if the text is the same, else `similar`.")
    outcome: LookupOutcome = Field(description="What this match alone comes to.")
    similarity: float = Field(description="Cosine of both questions; 1 if the text is the same.")
    why: str = Field(description="Why, in one line.")


class JudgeTestOutcome(StrEnum):
    """What the judge of similar questions says."""

    YES = "yes"
    """Both ask the same: the answer is served."""
    NO = "no"
    """They do not, or nobody could tell."""
    NOT_ASKED = "not_asked"
    """A model decides once a call comes; a test asks none."""


class TestView(BaseModel):
    """What would become of a question."""

    bank: str = Field(description="The bank's name.")
    agent: str = Field(description="Whose call it would be.")
    mode: AnswerMode = Field(description="What the agent's calls make of ready answers.")
    trusted: bool = Field(description="Whether sampled answers were right often enough to serve any.")
    outcome: LookupOutcome = Field(description="What the lookup comes to; what the mode does not serve becomes a hint.")
    judge: JudgeTestOutcome | None = Field(description="What the judge says; null if it has no say in this.")
    judge_confidence: float | None = Field(description="How sure it is that both ask the same, if it tells.")
    answer: AnswerView | None = Field(description="The answer that was found.")
    steps: list[str] = Field(description="Why it is a hit, a hint or a miss, a line for each step.")
    matches: list[TestedMatch] = Field(description="What was compared, the best first.")
    frames: int = Field(description="In how many frames of the agent it was looked for.")


class DayView(BaseModel):
    """Counts of one day."""

    day: str = Field(description="The day, in UTC.", examples=["2026-11-22"])
    served: int = Field(description="Calls that were answered.")
    hints: int = Field(description="Calls that were given a hint.")
    misses: int = Field(description="Questions for which nothing was found.")
    made: int = Field(description="Answers that were made.")
    used: int = Field(description="Answers that were used for the first time.")
    wasted: int = Field(description="Answers that were dropped and never used.")
    wasted_tokens: int = Field(description="What those had taken.")
    right: int = Field(description="Uses that were looked at and found right.")
    wrong: int = Field(description="Uses that were looked at and found wrong.")


class JudgeUsageView(BaseModel):
    """How an agent's recent lookups used the judge of similar questions, on this server."""

    agent: str = Field(description="The agent.", examples=["default:helper"])
    lookups: int = Field(description="Recent lookups, 100 at most.")
    waits: int = Field(description="Those that waited for the judge, 10 at most.")
    bar: float = Field(description="Similarity from which on the next one may wait.")
    breaker_open: bool = Field(description="Whether nobody is asked for a minute, after three time-outs in a row.")


class AnswerStats(BaseModel):
    """What came of a bank's ready answers."""

    bank: str = Field(description="The bank's name.")
    live: int = Field(description="Answers that are ready and not over.")
    hit_rate: float | None = Field(description="Share of questions that were answered; null if none came.")
    hint_rate: float | None = Field(description="Share of questions that were given a hint.")
    precision: float | None = Field(description="Share of sampled uses that were right; null if none was looked at.")
    samples: int = Field(description="Sampled uses that were looked at.")
    used_share: float | None = Field(description="Share of the answers made that were used; null if none was made.")
    wasted_tokens: int = Field(description="Tokens that went into answers that nobody used.")
    judge: list[JudgeUsageView] = Field(description="How the agents' lookups used the judge; empty if there is none.")
    days: list[DayView] = Field(description="Counts by day.")


class TestBody(Body):
    """A question to try."""

    agent: Name = Field(description="Whose call it would be: `name` or `session:name`.", examples=["helper"])
    question: str = Field(description="The question.", max_length=MOST_CHARACTERS, examples=["When do you open?"])
    end_user: str | None = Field(None, description="For whom; as the call would name them.", max_length=200)


class DroppedView(BaseModel):
    """How many were dropped."""

    bank: str = Field(description="The bank's name.")
    dropped: int = Field(description="How many there were.")


@router.get("/banks/{b}/answers")
async def list_answers(
    b: str,
    who: Who,
    parts: Parts,
    user: User = None,
    agent: AgentName = None,
    after: Annotated[str | None, Query(description="The last one of the page before.")] = None,
    limit: Annotated[int, Query(ge=1, le=1000, description="How many at most.")] = 100,
) -> AnswerPage:
    """List the ready answers of a bank, with why those that stand no more do not. The operator only."""
    require_operator(who)
    async with parts.store.begin_read() as tx:
        bank = await parts.memory.banks.get(tx, b, user)
        agent_id = None if agent is None else (await named_agent(tx, who, agent)).id
        last = None if after is None else AnswerId(after)
        found = await tx.answers.find_live(bank.id, agent_id=agent_id, after=last, limit=limit)
        views = await answer_views(tx, parts, bank, found)
    return AnswerPage(bank=bank.name, answers=views, after=found[-1].id if len(found) == limit else None)


@router.get("/banks/{b}/answers/stats")
async def answer_stats(
    b: str,
    who: Who,
    parts: Parts,
    user: User = None,
    days: Annotated[int, Query(ge=1, le=366, description="So many days back.")] = 14,
) -> AnswerStats:
    """Tell how often ready answers were of use, were right, and went to waste. The operator only."""
    require_operator(who)
    since = (parts.clock.now() - timedelta(days=days - 1)).date()
    async with parts.store.begin_read() as tx:
        bank = await parts.memory.banks.get(tx, b, user)
        found = await tx.answers.find_days(bank.id, since=since)
        live = await tx.answers.count_live(bank.id, parts.clock.now())
        waits = await _judge_waits(tx, parts, bank)
    total = {name: sum(getattr(each, name) for each in found) for name in _COUNTS}
    asked = total["served"] + total["hints"] + total["misses"]
    judged = total["right"] + total["wrong"]
    return AnswerStats(
        bank=bank.name,
        live=live,
        hit_rate=total["served"] / asked if asked else None,
        hint_rate=total["hints"] / asked if asked else None,
        precision=total["right"] / judged if judged else None,
        samples=judged,
        used_share=total["used"] / total["made"] if total["made"] else None,
        wasted_tokens=total["wasted_tokens"],
        judge=waits,
        days=[DayView(day=each.day.isoformat(), **{name: getattr(each, name) for name in _COUNTS}) for each in found],
    )


@router.get("/banks/{b}/answers/{answer}")
async def show_answer(b: str, answer: str, who: Who, parts: Parts, user: User = None) -> AnswerView:
    """Show a ready answer with what it rests on. The operator only."""
    require_operator(who)
    async with parts.store.begin_read() as tx:
        bank = await parts.memory.banks.get(tx, b, user)
        found = await _answer(tx, bank, answer)
        return (await answer_views(tx, parts, bank, [found]))[0]


@router.delete("/banks/{b}/answers/{answer}", status_code=204)
async def drop_answer(b: str, answer: str, who: Who, parts: Parts, user: User = None) -> None:
    """Drop a ready answer: it is found no more, in any process, from the next call on. The operator only."""
    require_operator(who)
    async with parts.store.begin_write() as tx:
        bank = await parts.memory.banks.get(tx, b, user)
        found = await _answer(tx, bank, answer)
        await drop_ready_answers(tx, bank.id, [found.id], DropReason.BY_HAND, parts.clock.now())


@router.delete("/banks/{b}/answers")
async def drop_answers(b: str, who: Who, parts: Parts, user: User = None, agent: AgentName = None) -> DroppedView:
    """Drop all ready answers of a bank, or those of one agent. The operator only."""
    require_operator(who)
    async with parts.store.begin_write() as tx:
        bank = await parts.memory.banks.get(tx, b, user)
        agent_id = None if agent is None else (await named_agent(tx, who, agent)).id
        dropped = 0
        while found := await tx.answers.find_live(bank.id, agent_id=agent_id, limit=1000):
            await drop_ready_answers(tx, bank.id, [each.id for each in found], DropReason.BY_HAND, parts.clock.now())
            dropped += len(found)
    return DroppedView(bank=bank.name, dropped=dropped)


@router.post("/banks/{b}/answers/test")
async def try_answers(b: str, asked: TestBody, who: Who, parts: Parts, user: User = None) -> TestView:
    """Tell what would become of a question, and why: nothing is asked, counted or changed. The operator only."""
    require_operator(who)
    async with parts.store.begin_read() as tx:
        bank = await parts.memory.banks.get(tx, b, user)
        agent = await named_agent(tx, who, asked.agent)
        end_user = (asked.end_user or user or "") if bank.end_user is None else (asked.end_user or bank.end_user)
        scopes = await tx.answers.find_scopes(bank.id, agent.id, end_user)
        view, open_ = await _test(tx, parts, bank, agent, scopes, asked.question)
    return await _decide(parts, agent, asked.question, view, open_)


async def _judge_waits(tx: Tx, parts: ApiParts, bank: Bank) -> list[JudgeUsageView]:
    if parts.judge is None:
        return []
    agents = {scope.agent_id for scope, _ in await tx.answers.find_recent_scopes(bank.id)}
    found = [agent for each in agents if (agent := await tx.agents.get(each)) is not None]
    return [
        JudgeUsageView(agent=agent.reference, **asdict(parts.judge.stats(agent.id)))
        for agent in sorted(found, key=lambda each: each.reference)
    ]


async def _test(
    tx: Tx, parts: ApiParts, bank: Bank, agent: Agent, scopes: Sequence[AnswerScope], question: str
) -> tuple[TestView, CheckedMatch | None]:
    """Look in each frame; return what the best one finds, and the match that a judge may still decide about."""
    uses = await tx.answers.find_uses(
        bank.id, agent_id=agent.id, judged=True, upto=parts.clock.now(), limit=judged_use_limit(parts.settings.answers)
    )
    found = [
        [
            (each, *_outcome(each, parts, bank, question))
            for each in await parts.lookup.explain(tx, bank, scope, question)
        ]
        for scope in scopes
    ]
    ranked = sorted((sorted(each, key=_rank) for each in found if each), key=lambda each: _rank(each[0]))
    best = ranked[0] if ranked else []
    outcome = best[0][1] if best else LookupOutcome.MISS
    open_ = next((each for each, _, why in best if each.match.kind is MatchKind.SIMILAR and _is_open(each, why)), None)
    shown = best[0][0] if outcome is not LookupOutcome.MISS else open_
    answer = None if shown is None else shown.answer
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
    """Let the judge decide where it would; this may take a while, so no transaction is open."""
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
    """Yield a line for each step of the lookup."""
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


def _outcome(found: CheckedMatch, parts: ApiParts, bank: Bank, question: str) -> tuple[LookupOutcome, str]:
    """Return what a match alone comes to, and why."""
    match, named = found.match, f"{found.match.phrasing!r}"
    if found.answer is None or found.why_void:
        return LookupOutcome.MISS, f"{named}, but {found.why_void}"
    if match.kind is MatchKind.SIMILAR:
        if match.conflict:
            return LookupOutcome.MISS, f"{named}, but they differ: {match.conflict}"
        verdict = (
            None if parts.judge is None else parts.judge.cached_verdict(bank, question, match.answer, match.phrasing)
        )
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
    """Return whether a judge may decide about a similar question."""
    match = found.match
    stands = found.answer is not None and not (found.why_void or found.doubt or match.conflict)
    return stands and match.similarity >= LEAST_SIMILARITY and "judge said" not in why


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
    found = await tx.answers.get(bank.id, AnswerId(key))
    if found is None or found.dropped:
        raise NotFound(
            f"bank {bank.name!r} has no ready answer {key!r}; `circadia answers list {bank.name}` lists them"
        )
    return found


_COUNTS: Final = ("served", "hints", "misses", "made", "used", "wasted", "wasted_tokens", "right", "wrong")
_JUDGE_SAYS: Final = {
    JudgeTestOutcome.YES: "it says that both ask the same",
    JudgeTestOutcome.NO: "it does not say that both ask the same",
    JudgeTestOutcome.NOT_ASKED: "a model, which is asked once a call comes",
}
_ORDER: Final = {LookupOutcome.HIT: 0, LookupOutcome.HINT: 1, LookupOutcome.MISS: 2}
