"""Ready answers of a bank: list, test, drop, and statistics."""

from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Annotated, Final

from fastapi import Query
from pydantic import Field

from circadia.agents.access import require_operator
from circadia.answers.cleanup import drop_ready_answers
from circadia.answers.lookup import MIN_SIMILARITY
from circadia.answers.services import CheckedMatch, are_answers_trusted, judged_use_limit, no_verdicts
from circadia.api.banks import User
from circadia.api.bodies import Body, named_agent
from circadia.api.context import ApiContext, Context, Limit, Who, fetch_page, noun_router
from circadia.clock import TimeSlice
from circadia.errors import NotFound
from circadia.ids import AgentId, AnswerId
from circadia.records.agent import Agent, Name
from circadia.records.answer import Answer, DropReason, LookupOutcome, MatchKind
from circadia.records.bank import Bank
from circadia.records.event import AnswerDrop, EventType
from circadia.schemas.answers import (
    AnswerPage,
    AnswerStats,
    AnswerView,
    DayView,
    DroppedView,
    JudgeUsageView,
    TestedMatch,
    TestView,
)
from circadia.stores.base import RecentScope, Tx

router = noun_router("answers")

MAX_CHARACTERS: Final = 100_000
"""Maximum length of a question; no lookup takes a longer one."""

AgentName = Annotated[str | None, Query(description="Only answers for this agent: `name` or `session:name`.")]


class TestBody(Body):
    """A question to test."""

    agent: Name = Field(description="Agent that would ask: `name` or `session:name`.", examples=["helper"])
    question: str = Field(description="Question.", max_length=MAX_CHARACTERS, examples=["When do you open?"])
    end_user: str | None = Field(None, description="End user, as the call would name them.", max_length=200)


@router.get("/banks/{bank}/answers")
async def list_answers(
    bank: str,
    who: Who,
    context: Context,
    user: User = None,
    agent: AgentName = None,
    after: Annotated[str | None, Query(description="Id of the last answer on the previous page.")] = None,
    limit: Limit = 100,
) -> AnswerPage:
    """List the ready answers of a bank, with why a lookup would not find some of them. Operator only."""
    require_operator(who)
    async with context.store.begin_read() as tx:
        found_bank = await context.memory.banks.get(tx, bank, user)
        agent_id = None if agent is None else (await named_agent(tx, who, agent)).id
        last = None if after is None else AnswerId(after)
        answers, more = await fetch_page(
            lambda row, most: tx.answers.find_live(
                found_bank.id, agent_id=agent_id, after=last if row is None else row.id, limit=most
            ),
            limit,
        )
        views = await _answer_views(tx, context, found_bank, answers)
    return AnswerPage(bank=found_bank.name, answers=views, after=answers[-1].id if more else None)


@router.get("/banks/{bank}/answers/stats")
async def answer_stats(
    bank: str,
    who: Who,
    context: Context,
    user: User = None,
    days: Annotated[int, Query(ge=1, le=366, description="Number of days to report.")] = 14,
) -> AnswerStats:
    """Show how often ready answers were used, right and wasted. Operator only."""
    require_operator(who)
    since = (context.clock.now() - timedelta(days=days - 1)).date()
    async with context.store.begin_read() as tx:
        found_bank = await context.memory.banks.get(tx, bank, user)
        days_found = await tx.answer_uses.find_days(found_bank.id, since=since)
        live = await tx.answers.count_live(found_bank.id, context.clock.now())
        waits = await _judge_waits(tx, context, found_bank)
    total = {name: sum(getattr(day, name) for day in days_found) for name in _COUNTS}
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
        days=[DayView.of(row, day=row.day.isoformat()) for row in days_found],
    )


@router.get("/banks/{bank}/answers/{answer}")
async def show_answer(bank: str, answer: str, who: Who, context: Context, user: User = None) -> AnswerView:
    """Show a ready answer and its sources. Operator only."""
    require_operator(who)
    async with context.store.begin_read() as tx:
        found_bank = await context.memory.banks.get(tx, bank, user)
        ready = await _answer(tx, found_bank, answer)
        return (await _answer_views(tx, context, found_bank, [ready]))[0]


@router.delete("/banks/{bank}/answers/{answer}", status_code=204)
async def drop_answer(bank: str, answer: str, who: Who, context: Context, user: User = None) -> None:
    """Drop a ready answer: no process finds it from the next call on. Operator only."""
    require_operator(who)
    async with context.store.begin_write() as tx:
        found_bank = await context.memory.banks.get(tx, bank, user)
        ready = await _answer(tx, found_bank, answer)
        await drop_ready_answers(tx, found_bank.id, [ready.id], DropReason.BY_HAND, context.clock.now())
        data = AnswerDrop(bank=found_bank.name, by=who.name, answers=1, answer=ready.id)
        await context.memory.events.record(tx, EventType.ANSWERS_DROPPED, data)


@router.delete("/banks/{bank}/answers")
async def drop_answers(
    bank: str, who: Who, context: Context, user: User = None, agent: AgentName = None
) -> DroppedView:
    """Drop all ready answers of a bank, or those of one agent. Operator only."""
    require_operator(who)
    async with context.store.begin_write() as tx:
        agent_id = None if agent is None else (await named_agent(tx, who, agent)).id
        found_bank = await context.memory.banks.get(tx, bank, user)
        dropped = 0
        while batch := await tx.answers.find_live(found_bank.id, agent_id=agent_id, limit=1000):
            await drop_ready_answers(
                tx, found_bank.id, [answer.id for answer in batch], DropReason.BY_HAND, context.clock.now()
            )
            dropped += len(batch)
        if dropped:
            data = AnswerDrop(bank=found_bank.name, by=who.name, answers=dropped)
            await context.memory.events.record(tx, EventType.ANSWERS_DROPPED, data)
    return DroppedView(bank=found_bank.name, dropped=dropped)


@router.post("/banks/{bank}/answers/test")
async def try_answers(bank: str, body: TestBody, who: Who, context: Context, user: User = None) -> TestView:
    """Show how a question would be answered, and why; this calls no model and changes nothing. Operator only."""
    require_operator(who)
    async with context.store.begin_read() as tx:
        found_bank = await context.memory.banks.get(tx, bank, user)
        agent = await named_agent(tx, who, body.agent)
        end_user = (
            (body.end_user or user or "") if found_bank.end_user is None else (body.end_user or found_bank.end_user)
        )
        frames = await tx.answer_frames.find_scopes(found_bank.id, agent.id, end_user)
        return await _test(tx, context, found_bank, agent, frames, body.question)


async def _answer_views(tx: Tx, context: ApiContext, bank: Bank, answers: Sequence[Answer]) -> list[AnswerView]:
    """Return views of a bank's answers, with their current validity."""
    names: dict[AgentId, str] = {}
    for agent_id in {answer.scope.agent_id for answer in answers}:
        agent = await tx.agents.get(agent_id)
        names[agent_id] = agent_id if agent is None else agent.reference
    views: list[AnswerView] = []
    turn = TimeSlice()
    for answer in answers:
        views.append(_answer_view(answer, names[answer.scope.agent_id], await _why_not(tx, context, bank, answer)))
        await turn.yield_at_end()  # a check may wait for nothing, and a page has a thousand
    return views


async def _why_not(tx: Tx, context: ApiContext, bank: Bank, answer: Answer) -> str:
    """Return why a lookup would not find the answer now; empty if it would."""
    now = context.clock.now()
    if not answer.made_at <= now < answer.expires_at:
        return f"it holds from {answer.made_at} to {answer.expires_at}, and now is {now}"
    return (await context.lookup.validity(tx, bank, answer)).why_not


def _answer_view(answer: Answer, agent: str, why_not: str) -> AnswerView:
    basis = answer.basis
    return AnswerView.of(
        answer,
        agent=agent,
        end_user=answer.scope.end_user or None,
        frame=answer.scope.frame,
        question=answer.phrasings[0],
        stands=not why_not,
        why_not=why_not,
        blocks={label: basis.blocks[label] for label in basis.shown if label in basis.blocks},
        notes=sorted(basis.notes),
        episodes=sorted(basis.episodes),
        usd=None if answer.nanousd is None else answer.nanousd / _NANOUSD,
    )


async def _judge_waits(tx: Tx, context: ApiContext, bank: Bank) -> list[JudgeUsageView]:
    if context.judge is None:
        return []
    agents = {recent.scope.agent_id for recent in await tx.answer_frames.find_recent_scopes(bank.id)}
    known = [agent for agent_id in agents if (agent := await tx.agents.get(agent_id)) is not None]
    return [
        JudgeUsageView.of(context.judge.stats(agent.id), agent=agent.reference)
        for agent in sorted(known, key=lambda agent: agent.reference)
    ]


async def _test(
    tx: Tx, context: ApiContext, bank: Bank, agent: Agent, frames: Sequence[RecentScope], question: str
) -> TestView:
    """Search each frame; return the best result."""
    uses = await tx.answer_uses.find_uses(
        bank.id,
        agent_id=agent.id,
        judged=True,
        upto=context.clock.now(),
        limit=judged_use_limit(context.settings.answers),
    )
    judge = context.judge
    by_scope: list[list[tuple[CheckedMatch, LookupOutcome, str]]] = []
    for frame in frames:
        checked = await context.lookup.explain(tx, bank, frame.scope, question)
        matches = [match.match for match in checked]
        verdicts = await (no_verdicts(matches) if judge is None else judge.find_verdicts(tx, bank, question, matches))
        by_scope.append([
            (match, *_outcome(match, context, verdict)) for match, verdict in zip(checked, verdicts, strict=True)
        ])  # fmt: skip
    ranked = sorted((sorted(group, key=_rank) for group in by_scope if group), key=lambda group: _rank(group[0]))
    best = ranked[0] if ranked else []
    outcome = best[0][1] if best else LookupOutcome.MISS
    answer = best[0][0].answer if outcome is not LookupOutcome.MISS else None
    matches = [
        TestedMatch.of(hit.match, outcome=result, similarity=round(hit.match.similarity, 4), why=why)
        for hit, result, why in best
    ]
    is_open = outcome is not LookupOutcome.HIT and any(_is_open(hit, why) for hit, _, why in best)
    return TestView(
        bank=bank.name,
        agent=agent.reference,
        mode=agent.policy.answer_mode,
        trusted=are_answers_trusted(uses, context.settings.answers),
        outcome=outcome,
        steps=[*_frame_steps(frames), *_steps(outcome, matches, is_open=is_open, judged=judge is not None)],
        frames=len(frames),
        matches=matches,
        answer=None if answer is None else (await _answer_views(tx, context, bank, [answer]))[0],
    )


def _frame_steps(frames: Sequence[RecentScope]) -> Iterator[str]:
    """Yield why nothing is asked ahead in these frames of an agent and end user, if nothing is."""
    last = max(frames, key=lambda frame: frame.at, default=None)
    if last is None:
        yield "frame: no call of this agent for this end user is known"
    elif any(frame.is_open for frame in frames):
        return
    elif last.why_not:
        yield f"frame: nothing is asked ahead: {last.why_not}"
    elif len(frames) == 1:
        yield "frame: only one question came in it so far; answers are made after a second, different one"
    else:
        yield (
            "frame: no two different questions came with the same prompt, tools, settings and headers; what changes "
            "with each call may be declared in `answers.volatile`"
        )


def _steps(outcome: LookupOutcome, matches: Sequence[TestedMatch], *, is_open: bool, judged: bool) -> Iterator[str]:
    exact = next((match for match in matches if match.kind is MatchKind.EXACT), None)
    yield f"same text: {exact.why}" if exact is not None else "same text: no expected question has it"
    if exact is None or exact.outcome is LookupOutcome.MISS:
        similar = next((match for match in matches if match.kind is MatchKind.SIMILAR), None)
        yield f"similar: {similar.why}" if similar is not None else "similar: there is no other expected question"
        if is_open and judged:
            yield "judge: a model, which is asked once a call comes"
        elif is_open:
            yield "judge: there is none (`answers.check`, `sleeptime.model`)"
    yield f"so it is a {outcome.value}"


def _outcome(found: CheckedMatch, context: ApiContext, verdict: bool | None) -> tuple[LookupOutcome, str]:
    """Return the outcome of a match alone, and why."""
    match, named = found.match, f"{found.match.phrasing!r}"
    if found.answer is None or found.validity.void:
        return LookupOutcome.MISS, f"{named}, but {found.validity.void}"
    if match.kind is MatchKind.SIMILAR:
        if match.conflict:
            return LookupOutcome.MISS, f"{named}, but they differ: {match.conflict}"
        if verdict is False:
            return LookupOutcome.MISS, f"{named}, but the judge said no before"
        if not verdict:
            near = f"{named}, similarity {match.similarity:.2f}"
            if context.lookup.is_hint(match):
                return LookupOutcome.HINT, near
            if match.similarity < MIN_SIMILARITY:
                return LookupOutcome.MISS, f"{near}, too little for a judge"
            return LookupOutcome.MISS, f"{near}, too little for a hint"
        named = f"{named}, of which the judge said yes before"
    if found.validity.newer:
        return LookupOutcome.HINT, f"{named}, but its answer is not certain: {found.validity.why_not}"
    return LookupOutcome.HIT, named


def _is_open(found: CheckedMatch, why: str) -> bool:
    """Return whether a judge may decide on a similar question."""
    match = found.match
    is_valid = found.answer is not None and not (found.validity.why_not or match.conflict)
    is_valid = is_valid and match.kind is MatchKind.SIMILAR
    return is_valid and match.similarity >= MIN_SIMILARITY and "judge said" not in why


def _rank(compared: tuple[CheckedMatch, LookupOutcome, str]) -> tuple[int, float]:
    hit, outcome, _ = compared
    return _ORDER[outcome], -hit.match.similarity


async def _answer(tx: Tx, bank: Bank, key: str) -> Answer:
    ready = await tx.answers.get(bank.id, AnswerId(key))
    if ready is None or ready.dropped:
        raise NotFound(f"bank {bank.name!r} has no ready answer {key!r}; `circadia answers {bank.name}` lists them")
    return ready


_NANOUSD: Final = 1e9
_COUNTS: Final = ("served", "hints", "misses", "made", "used", "wasted", "wasted_tokens", "right", "wrong")
_ORDER: Final = {LookupOutcome.HIT: 0, LookupOutcome.HINT: 1, LookupOutcome.MISS: 2}
