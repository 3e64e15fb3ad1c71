"""Ready answers of a bank: what is expected, why a question would be answered or not, and what came of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated, Final

from fastapi import Query
from pydantic import BaseModel, Field

from circadia.agents.access import require_operator
from circadia.api.banks import User
from circadia.api.bodies import Body, Name
from circadia.api.parts import ApiParts, Parts, Who, noun_router
from circadia.api.references import named_agent
from circadia.errors import NotFound
from circadia.ids import AgentId, AnswerId
from circadia.memory.answers.deixis import stands_alone
from circadia.memory.answers.lookup import Match, Outcome
from circadia.memory.answers.normal import tokens
from circadia.memory.answers.quality import telling, trusted
from circadia.memory.answers.shelf import Compared
from circadia.records.agent import Agent
from circadia.records.answer import Answer, AnswerMode, AnswerScope, Dropped
from circadia.records.bank import Bank
from circadia.sleeptime.answers.hygiene import drop
from circadia.stores.base import Tx

router = noun_router("answers")

MOST_CHARACTERS: Final = 100_000
"""Of a question; a longer one is never looked for."""
NANOUSD: Final = 1e9

AgentName = Annotated[str | None, Query(description="Those of this agent only: `name` or `session:name`.")]


class AnswerView(BaseModel):
    """An anticipated answer."""

    id: str = Field(description="Key.", examples=["ans_0cwd…"])
    agent: str = Field(description="Whose calls it may answer.", examples=["default:helper"])
    end_user: str | None = Field(description="For whom; null if the agent's calls name nobody.")
    frame: str = Field(description="Digest of provider, model, system prompt, tools and output settings.")
    question: str = Field(description="The question that was answered.")
    phrasings: list[str] = Field(description="All its wordings, that one first.")
    confidence: float = Field(description="How likely the question was held to be, 0 to 1.")
    text: str = Field(description="The answer.")
    reasoning: str = Field(description="What the model told of how it came to it.")
    stands: bool = Field(description="Whether it would be found now.")
    why_not: str = Field(description="Why it would not; empty if it stands.")
    blocks: dict[str, int] = Field(description="Blocks that it rests on, with the version of each.")
    notes: list[int] = Field(description="Numbers of the notes that it rests on.")
    episodes: list[int] = Field(description="Numbers of the episodes that it rests on.")
    pass_id: str | None = Field(description="The pass that made it.")
    made_at: datetime = Field(description="When.")
    expires_at: datetime = Field(description="From then on it is none.")
    tokens: int = Field(description="Input and output tokens that it took.")
    usd: float | None = Field(description="Their list price in US dollars; null if it is not known.")
    seconds: float = Field(description="How long it took.")
    uses: int = Field(description="How often it was of use.")
    used_at: datetime | None = Field(description="When that was last.")


class AnswerPage(BaseModel):
    """Ready answers of a bank."""

    bank: str = Field(description="The bank's name.")
    answers: list[AnswerView] = Field(description="By id, which is by the time they were made.")
    after: str | None = Field(description="The last one, if there may be more: `after` of the next page.")


class TestedMatch(BaseModel):
    """A phrasing that was compared with the question."""

    answer: str = Field(description="Id of its answer.")
    phrasing: str = Field(description="The phrasing.")
    way: str = Field(description="`exact` or `meaning`.")
    outcome: Outcome = Field(description="What the match alone comes to: `hit`, `hint` or `miss`.")
    confidence: float = Field(description="How sure it is that both ask for the same.")
    objections: list[str] = Field(description="Why it is no hit, though it may be sure.")
    why_not: str = Field(description="Why its answer does not stand; empty if it does.")


class CheckSays(StrEnum):
    """What the check of ready answers says of a question that is alike in meaning."""

    YES = "yes"
    """Both ask for the same: it is a hit."""
    NO = "no"
    """They do not, or nobody could tell: it is none."""
    NOT_ASKED = "not_asked"
    """A model decides once a call comes; to try a question asks none."""


class TestView(BaseModel):
    """What would become of a question."""

    bank: str = Field(description="The bank's name.")
    agent: str = Field(description="Whose call it would be.")
    mode: AnswerMode = Field(description="What the agent's calls make of ready answers.")
    trusted: bool = Field(description="Whether sampled answers were right often enough to serve any.")
    outcome: Outcome = Field(description="What the lookup comes to; what the mode does not serve becomes a hint.")
    check: CheckSays | None = Field(description="What `answers.check` says; null if it has no say in this.")
    check_confidence: float | None = Field(description="How sure it is that both ask for the same, if it told that.")
    answer: AnswerView | None = Field(description="The answer that was found.")
    alone: bool = Field(description="Whether the question can be understood without what was said before.")
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


class AnswerStats(BaseModel):
    """What came of a bank's ready answers."""

    bank: str = Field(description="The bank's name.")
    live: int = Field(description="Answers that are ready and not over.")
    hit_rate: float | None = Field(description="Share of questions that were answered; null if none came.")
    hint_rate: float | None = Field(description="Share of questions that were given a hint.")
    precision: float | None = Field(description="Share of sampled uses that were right; null if none was looked at.")
    used_share: float | None = Field(description="Share of the answers made that were used; null if none was made.")
    wasted_tokens: int = Field(description="Tokens that went into answers that nobody used.")
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
    async with parts.store.read() as tx:
        bank = await parts.memory.banks.get(tx, b, user)
        agent_id = None if agent is None else (await named_agent(tx, who, agent)).id
        last = None if after is None else AnswerId(after)
        found = await tx.answers.live(bank.id, agent_id=agent_id, after=last, limit=limit)
        views = await _views(tx, parts, bank, found)
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
    async with parts.store.read() as tx:
        bank = await parts.memory.banks.get(tx, b, user)
        found = await tx.answers.days(bank.id, since=since)
        live = await tx.answers.count_live(bank.id, parts.clock.now())
    total = {name: sum(getattr(each, name) for each in found) for name in _COUNTS}
    asked = total["served"] + total["hints"] + total["misses"]
    judged = total["right"] + total["wrong"]
    return AnswerStats(
        bank=bank.name,
        live=live,
        hit_rate=total["served"] / asked if asked else None,
        hint_rate=total["hints"] / asked if asked else None,
        precision=total["right"] / judged if judged else None,
        used_share=total["used"] / total["made"] if total["made"] else None,
        wasted_tokens=total["wasted_tokens"],
        days=[DayView(day=each.day.isoformat(), **{name: getattr(each, name) for name in _COUNTS}) for each in found],
    )


@router.get("/banks/{b}/answers/{answer}")
async def show_answer(b: str, answer: str, who: Who, parts: Parts, user: User = None) -> AnswerView:
    """Show a ready answer with what it rests on. The operator only."""
    require_operator(who)
    async with parts.store.read() as tx:
        bank = await parts.memory.banks.get(tx, b, user)
        found = await _answer(tx, bank, answer)
        return (await _views(tx, parts, bank, [found]))[0]


@router.delete("/banks/{b}/answers/{answer}", status_code=204)
async def drop_answer(b: str, answer: str, who: Who, parts: Parts, user: User = None) -> None:
    """Drop a ready answer: it is found no more, in any process, from the next call on. The operator only."""
    require_operator(who)
    async with parts.store.write() as tx:
        bank = await parts.memory.banks.get(tx, b, user)
        found = await _answer(tx, bank, answer)
        await drop(tx, bank.id, [found.id], Dropped.BY_HAND, parts.clock.now())


@router.delete("/banks/{b}/answers")
async def drop_answers(b: str, who: Who, parts: Parts, user: User = None, agent: AgentName = None) -> DroppedView:
    """Drop all ready answers of a bank, or those of one agent. The operator only."""
    require_operator(who)
    async with parts.store.write() as tx:
        bank = await parts.memory.banks.get(tx, b, user)
        agent_id = None if agent is None else (await named_agent(tx, who, agent)).id
        dropped = 0
        while found := await tx.answers.live(bank.id, agent_id=agent_id, limit=1000):
            await drop(tx, bank.id, [each.id for each in found], Dropped.BY_HAND, parts.clock.now())
            dropped += len(found)
    return DroppedView(bank=bank.name, dropped=dropped)


@router.post("/banks/{b}/answers/test")
async def try_answers(b: str, asked: TestBody, who: Who, parts: Parts, user: User = None) -> TestView:
    """Tell what would become of a question, and why: nothing is asked, counted or changed. The operator only."""
    require_operator(who)
    async with parts.store.read() as tx:
        bank = await parts.memory.banks.get(tx, b, user)
        agent = await named_agent(tx, who, asked.agent)
        end_user = (asked.end_user or user or "") if bank.end_user is None else (asked.end_user or bank.end_user)
        scopes = await tx.answers.scopes(bank.id, agent.id, end_user)
        found = await _tested(tx, parts, bank, agent, scopes, asked.question)
    return await _checked(parts, agent, asked.question, found)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Tested:
    """What the lookup tells of a question."""

    view: TestView
    """With the nearest answer that stands, even if it is a miss."""
    match: Match | None
    """That answer's."""


async def _tested(
    tx: Tx, parts: ApiParts, bank: Bank, agent: Agent, scopes: Sequence[AnswerScope], question: str
) -> _Tested:
    """Look in each frame, and tell of the best."""
    uses = await tx.answers.uses(
        bank.id, agent_id=agent.id, judged=True, upto=parts.clock.now(), limit=telling(parts.settings.answers)
    )
    told = [await parts.memory.shelves.explain(tx, bank, scope, question) for scope in scopes]
    told.sort(key=lambda each: (_ORDER[each.outcome], -max((it.match.confidence for it in each.compared), default=0.0)))
    best = told[0] if told else None
    compared = () if best is None else best.compared
    stands = next((it for it in compared if it.answer and not it.why_not), None)
    answer = None if stands is None else stands.answer
    view = TestView(
        bank=bank.name,
        agent=agent.reference,
        mode=agent.policy.answers,
        trusted=trusted(uses, parts.settings.answers),
        outcome=Outcome.MISS if best is None else best.outcome,
        check=None,
        check_confidence=None,
        answer=None if answer is None else (await _views(tx, parts, bank, [answer]))[0],
        alone=stands_alone(tokens(question)) if best is None else best.alone,
        matches=[_match(each) for each in compared],
        frames=len(scopes),
    )
    return _Tested(view=view, match=None if stands is None else stands.match)


async def _checked(parts: ApiParts, agent: Agent, question: str, tested: _Tested) -> TestView:
    """Let the check decide, where it would; this may take a while, so no transaction is open."""
    match, view = tested.match, tested.view
    if parts.check is not None and match is not None and match.checkable:
        verdict = await parts.check.tried(agent, question, match.phrasing)
        if verdict is None:
            view.check = CheckSays.NOT_ASKED
        elif verdict.same:
            view.check, view.outcome = CheckSays.YES, Outcome.HIT
        else:
            view.check = CheckSays.NO
            view.outcome = Outcome.HINT if view.outcome is Outcome.HIT else view.outcome
        if verdict is not None and verdict.confidence is not None:
            view.check_confidence = round(verdict.confidence, 4)
    if view.outcome is Outcome.MISS:
        view.answer = None
    return view


def _match(compared: Compared) -> TestedMatch:
    match = compared.match
    return TestedMatch(
        answer=match.answer, phrasing=match.phrasing, way=match.way.value, outcome=match.outcome,
        confidence=round(match.confidence, 4), objections=[f"{each.guard}: {each.reason}" for each in match.objections],
        why_not=compared.why_not,
    )  # fmt: skip


async def _answer(tx: Tx, bank: Bank, key: str) -> Answer:
    found = await tx.answers.get(bank.id, AnswerId(key))
    if found is None or found.dropped:
        raise NotFound(
            f"bank {bank.name!r} has no ready answer {key!r}; `circadia answers list {bank.name}` lists them"
        )
    return found


async def _views(tx: Tx, parts: ApiParts, bank: Bank, answers: Sequence[Answer]) -> list[AnswerView]:
    names: dict[AgentId, str] = {}
    for agent_id in {each.scope.agent_id for each in answers}:
        agent = await tx.agents.get(agent_id)
        names[agent_id] = agent_id if agent is None else agent.reference
    return [_view(each, names[each.scope.agent_id], await _why_not(tx, parts, bank, each)) for each in answers]


async def _why_not(tx: Tx, parts: ApiParts, bank: Bank, answer: Answer) -> str:
    """Return why the answer would not be found now; empty if it would."""
    now = parts.clock.now()
    if not answer.made_at <= now < answer.expires_at:
        return f"it holds from {answer.made_at} to {answer.expires_at}, and now is {now}"
    return await parts.memory.shelves.standing(tx, bank, answer)


def _view(answer: Answer, agent: str, why_not: str) -> AnswerView:
    rests = answer.rests
    return AnswerView(
        id=answer.id, agent=agent, end_user=answer.scope.end_user or None, frame=answer.scope.frame,
        question=answer.phrasings[0], phrasings=list(answer.phrasings), confidence=answer.confidence,
        text=answer.text, reasoning=answer.reasoning, stands=not why_not, why_not=why_not,
        blocks={label: rests.blocks[label] for label in rests.shown if label in rests.blocks},
        notes=sorted(rests.notes), episodes=sorted(rests.episodes), pass_id=answer.pass_id, made_at=answer.made_at,
        expires_at=answer.expires_at, tokens=answer.tokens,
        usd=None if answer.nanousd is None else answer.nanousd / NANOUSD,
        seconds=answer.seconds, uses=answer.uses, used_at=answer.used_at,
    )  # fmt: skip


_COUNTS: Final = ("served", "hints", "misses", "made", "used", "wasted", "wasted_tokens", "right", "wrong")
_ORDER: Final = {Outcome.HIT: 0, Outcome.HINT: 1, Outcome.MISS: 2}
