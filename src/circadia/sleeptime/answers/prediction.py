"""Asks the tier's model what an end user will ask an agent next, and later which of it may be kept (ANS-01).

The prompt of a prediction holds the blocks, this end user's newest turns with this agent and earlier questions, and
what is ready. It holds nothing from tools, strangers or other end users.

Some checks need no model: a phrasing is one short line without an address, does not pose as a prompt, and names nothing
outside its sources. A model then judges whether all phrasings ask the same and are self-contained.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from typing import Final

from pydantic import BaseModel, Field

from circadia.answers.question_drafts import AnswerServices
from circadia.answers.question_text import has_identifier, normalize
from circadia.ids import PassId
from circadia.llm.chat_model import ModelAnswerError
from circadia.memory.redaction import redact
from circadia.memory.relative_dates import in_zone
from circadia.records.agent import Agent
from circadia.records.answer import Answer, AnswerScope
from circadia.records.bank import Bank, Trust
from circadia.records.block import Block
from circadia.records.conversation import display_alias
from circadia.records.episode import Episode, EpisodeKind
from circadia.records.schedule import load_zone
from circadia.sleeptime.grounding.source_check import Sources, collect_sources, describe_ungrounded_claims
from circadia.sleeptime.grounding.wording import find_addresses, one_line, refang, unfit_reason
from circadia.sleeptime.proposals.operation import AskAnyModel
from circadia.sleeptime.proposals.prompts import NumberedLines, build_file_prompt
from circadia.stores.base import Tx

_MAX_CHARACTERS: Final = 300
_MAX_CANDIDATES: Final = 10
"""Phrasings of a question that a model judges."""
NEWEST_EPISODES: Final = 300
"""Newest episodes of a bank to select from."""
TURNS: Final = 30
"""Newest turns of a person in the prompt."""
EARLIER_QUESTIONS: Final = 20
"""Earlier questions in the prompt."""
READY: Final = 30
"""Newest ready questions in the prompt."""
LONGEST: Final = 400
"""Characters of a turn."""
LONGEST_BLOCK: Final = 2_000
"""Characters of a block."""
MAX_QUESTIONS: Final = 20
"""Questions that one prompt asks for."""
TOKENS_EACH: Final = 200
NOBODY: Final = "user"
"""Speaker name of an unknown person (`gateway/memory/call_memory.py`)."""
TALK: Final = frozenset({Trust.PERSON, Trust.AGENT})
"""Trust of the episodes that questions are predicted from."""
KINDS: Final = frozenset({EpisodeKind.TURN, EpisodeKind.FACT, EpisodeKind.READY})
"""Kinds of those episodes."""
_SHOWN_CHARACTERS: Final = 300
"""Characters of an answer in the prompt, enough to see whether it is one."""
_MAX_PHRASINGS: Final = 5
_TOKENS_EACH: Final = 90


class PredictedQuestion(BaseModel):
    phrasings: list[str] = Field(max_length=20)
    confidence: float = Field(ge=0, le=1)


class Predictions(BaseModel):
    questions: list[PredictedQuestion] = Field(max_length=100)


@dataclass(frozen=True, kw_only=True, slots=True)
class ExpectedQuestion:
    phrasings: Sequence[str]
    """The first one is answered."""
    confidence: float
    """Likelihood that it is asked."""


def accept_questions(predicted: Sequence[PredictedQuestion], sources: Sources) -> Sequence[ExpectedQuestion]:
    """Return the questions with the phrasings that pass the checks, the likeliest first; each text once."""
    questions: list[ExpectedQuestion] = []
    taken_keys: set[str] = set()
    for question in predicted:
        phrasings: dict[str, str] = {}
        for text in map(str.strip, question.phrasings):
            key = normalize(text).text
            if key not in taken_keys and not reject_phrasing(text, sources):
                phrasings.setdefault(key, text)
        if phrasings:
            taken_keys.update(phrasings)
            questions.append(
                ExpectedQuestion(phrasings=list(phrasings.values())[:_MAX_CANDIDATES], confidence=question.confidence)
            )  # fmt: skip
    return sorted(questions, key=lambda question: -question.confidence)


def reject_phrasing(text: str, sources: Sources) -> str:
    """Return why a phrasing is rejected; empty if it is not."""
    if not text or len(text) > _MAX_CHARACTERS or not text.isprintable():
        return "it is no short line"
    if posing := unfit_reason(text):
        return posing
    if find_addresses(refang(text)):
        return "it has an address"
    return describe_ungrounded_claims(text, sources)


@dataclass(frozen=True, kw_only=True, slots=True)
class QuestionMaterial:
    blocks: Sequence[Block]
    """Blocks that are not empty."""
    turns: Sequence[Episode]
    """The newest, in order."""
    questions: Sequence[Episode]
    """The person's questions before `turns`, in order."""

    @property
    def conversation(self) -> str | None:
        """Return the newest conversation: a question that is not self-contained belongs to it."""
        return self.turns[-1].conversation if self.turns else None


async def fetch_material(
    tx: Tx, bank: Bank, agent: Agent, scope: AnswerScope, *, upto: int, now: datetime
) -> QuestionMaterial:
    """Return the bank's material on this end user up to an episode; empty if the bank is another's.

    Its turns have their times by the agent's clock.
    """
    if bank.end_user is not None and bank.end_user != scope.end_user:
        return QuestionMaterial(blocks=(), turns=(), questions=())
    newest = await tx.episodes.find_all(bank.id, after=upto + 1, newest_first=True, now=now, limit=NEWEST_EPISODES)
    zone = load_zone(agent.coordination.zone)
    own = [in_zone(row, zone) for row in _select_own_turns([*reversed(newest)], bank, agent, scope)]
    before = [turn for turn in own[:-TURNS] if turn.trust is Trust.PERSON and "?" in turn.text]
    return QuestionMaterial(
        blocks=[block for block in await tx.blocks.find_all(bank.id) if block.value],
        turns=own[-TURNS:], questions=before[-EARLIER_QUESTIONS:],
    )  # fmt: skip


def _select_own_turns(rows: Sequence[Episode], bank: Bank, agent: Agent, scope: AnswerScope) -> Sequence[Episode]:
    """Return the turns between this end user and this agent.

    Conversations with another person, or only with another agent, are left out: a bank may serve many.
    """
    people: defaultdict[str, set[str]] = defaultdict(set)
    agents: defaultdict[str, set[str]] = defaultdict(set)
    for row in rows:
        if row.conversation is not None and row.trust in TALK:
            (people if row.trust is Trust.PERSON else agents)[row.conversation].add(row.speaker)
    who = scope.end_user or NOBODY
    turns: list[Episode] = []
    for row in rows:
        if row.trust not in TALK or row.kind not in KINDS or row.incomplete:
            continue
        spoke = {row.speaker} if row.trust is Trust.PERSON else set[str]()
        others = agents[row.conversation] if row.conversation is not None else set[str]()
        spoke |= people[row.conversation] if row.conversation is not None else set[str]()
        is_own = bank.end_user is not None or (bool(spoke) and spoke <= {who, display_alias(who)})
        if is_own and (not others or agent.name in others):
            turns.append(row)
    return turns


def _write_material(found: QuestionMaterial, agent: Agent, ready: Sequence[Answer]) -> str:
    lines = NumberedLines()
    lines.add_line(f"The assistant is called {agent.name}.")
    for block in found.blocks:
        lines.add_block(f"Block {block.label}", block.value, LONGEST_BLOCK)
    if found.questions:
        lines.add_heading("Asked before")
        lines.add_episodes(found.questions, longest=LONGEST)
    if found.turns:
        lines.add_heading("Said last")
        lines.add_episodes(found.turns, longest=LONGEST)
    if ready:
        lines.add_heading("Ready already")
        for answer in sorted(ready, key=lambda answer: answer.id)[-READY:]:
            lines.add_line(f"- {answer.phrasings[0]}")
    return lines.text


async def predict_questions(
    found: QuestionMaterial, agent: Agent, ready: Sequence[Answer], answer_services: AnswerServices,
    ask: AskAnyModel, *, mission: str, instructions: str, own: PassId, today: date,
) -> Sequence[ExpectedQuestion]:  # fmt: skip
    """Return the accepted predictions, the likeliest first. Raises ModelAnswerError, OverBudget, PassPreempted.

    The prompt leaves out what pass `own` has made: a pass that runs again asks the same, which is already paid for.
    """
    if not found.turns and not found.blocks:
        return ()
    max_questions = min(answer_services.settings.questions, MAX_QUESTIONS)
    known = [answer for answer in ready if answer.pass_id != own and answer.phrasings]
    data = _write_material(found, agent, known)
    prompt = build_file_prompt(
        "predict", data, mission=mission, instructions=instructions, today=today, questions=max_questions
    )
    answer = await ask(prompt, Predictions, most_tokens=200 + TOKENS_EACH * max_questions)
    sources = collect_sources([*found.questions, *found.turns], *(block.value for block in found.blocks), agent.name)
    return accept_questions(answer.questions[: 2 * max_questions], sources)


class QuestionVerdict(BaseModel):
    number: int = Field(description="Number of the question.")
    why: str = Field(default="", description="What decides, in a few words.")
    answered: bool = Field(description="Whether the answer answers it.")
    stands_alone: bool = Field(description="Whether it can be understood without a conversation.")
    same: list[int] = Field(description="Numbers of the phrasings that ask exactly the same.", max_length=20)
    one_day: bool = Field(default=False, description="Whether its answer is right on one day only.")


class QuestionVerdicts(BaseModel):
    questions: list[QuestionVerdict] = Field(max_length=200)


@dataclass(frozen=True, kw_only=True, slots=True)
class KeptQuestion:
    question: ExpectedQuestion
    stands_alone: bool
    """Otherwise only its own conversation may find it."""
    one_day: bool
    """Whether its answer may be wrong on the next day, such as one about tomorrow."""


async def judge_questions(
    answered: Sequence[tuple[ExpectedQuestion, str]], ask: AskAnyModel, *, mission: str, today: date
) -> Mapping[int, QuestionVerdict]:
    """Return the verdicts by index; what the model leaves out has none. Raises OverBudget, PassPreempted."""
    lines: list[str] = []
    for number, (question, answer) in enumerate(answered, 1):
        lines.append(f"question {number}: {one_line(question.phrasings[0])}")
        lines += [f"  phrasing {at}: {one_line(text)}" for at, text in enumerate(question.phrasings[1:], 1)]
        lines.append(f"  answer: {one_line(redact(answer))[:_SHOWN_CHARACTERS]}")
    try:
        verdicts = await ask(
            build_file_prompt("expected_questions", "\n".join(lines), mission=mission, today=today), QuestionVerdicts,
            most_tokens=200 + _TOKENS_EACH * len(answered),
        )  # fmt: skip
    except ModelAnswerError:
        return {}
    return {verdict.number - 1: verdict for verdict in verdicts.questions}


def keep_question(question: ExpectedQuestion, verdict: QuestionVerdict | None) -> KeptQuestion | None:
    """Return what to keep of a question; none if its answer does not answer it.

    Without a verdict that is the first phrasing, for its own conversation unless it has an identifier, and for one day.
    """
    first = question.phrasings[0]
    if verdict is None:
        alone = has_identifier(first)
        return KeptQuestion(question=replace(question, phrasings=[first]), stands_alone=alone, one_day=True)
    if not verdict.answered:
        return None
    same = [text for at, text in enumerate(question.phrasings[1:], 1) if at in verdict.same]
    kept_question = replace(question, phrasings=[first, *same][:_MAX_PHRASINGS])
    return KeptQuestion(question=kept_question, stands_alone=verdict.stands_alone, one_day=verdict.one_day)
