"""Asks the tier's model what an end user will ask an agent next (ANS-01).

The prompt holds the blocks, this end user's newest turns with this agent and earlier questions, and what is ready. It
holds nothing from tools, strangers or other end users.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from circadia.answers.question_drafts import AnswerServices
from circadia.ids import PassId
from circadia.llm.chat_model import Prompt
from circadia.records.agent import Agent
from circadia.records.answer import Answer, AnswerScope
from circadia.records.bank import Bank, Trust
from circadia.records.block import Block
from circadia.records.conversation import display_alias
from circadia.records.episode import Episode, EpisodeKind
from circadia.sleeptime.answers.phrasing import ExpectedQuestion, Predictions, accept_questions
from circadia.sleeptime.grounding.source_check import collect_sources
from circadia.sleeptime.proposals.numbered_lines import NumberedLines
from circadia.sleeptime.proposals.operation import AskAnyModel
from circadia.sleeptime.proposals.prompts import build_file_prompt
from circadia.stores.base import Tx

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
MOST: Final = 20
"""Questions that one prompt asks for."""
TOKENS_EACH: Final = 200
NOBODY: Final = "user"
"""Speaker name of an unknown person (`gateway/memory/call_memory.py`)."""
TALK: Final = frozenset({Trust.PERSON, Trust.AGENT})
"""Trust of the episodes that questions are predicted from."""
KINDS: Final = frozenset({EpisodeKind.TURN, EpisodeKind.FACT, EpisodeKind.READY})
"""Kinds of those episodes."""


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


async def fetch_material(tx: Tx, bank: Bank, agent: Agent, scope: AnswerScope, *, upto: int) -> QuestionMaterial:
    """Return the bank's material on this end user up to an episode; empty if the bank is another's."""
    if bank.end_user is not None and bank.end_user != scope.end_user:
        return QuestionMaterial(blocks=(), turns=(), questions=())
    newest = await tx.episodes.find_all(bank.id, after=upto + 1, newest_first=True, limit=NEWEST_EPISODES)
    own = _select_own_turns([*reversed(newest)], bank, agent, scope)
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
        his = bank.end_user is not None or (bool(spoke) and spoke <= {who, display_alias(who)})
        if his and (not others or agent.name in others):
            turns.append(row)
    return turns


def build_prediction_prompt(
    found: QuestionMaterial, agent: Agent, ready: Sequence[Answer], *, instructions: str, most: int
) -> Prompt:
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
    return build_file_prompt("predict", lines.text, instructions, questions=most)


async def predict_questions(
    found: QuestionMaterial, agent: Agent, ready: Sequence[Answer], readying: AnswerServices, ask: AskAnyModel, *,
    instructions: str, own: PassId,
) -> Sequence[ExpectedQuestion]:  # fmt: skip
    """Return the accepted predictions, the likeliest first. Raises ModelAnswerError, OverBudget, PassPreempted.

    The prompt leaves out what pass `own` has made: a pass that runs again asks the same, which is already paid for.
    """
    if not found.turns and not found.blocks:
        return ()
    most = min(readying.settings.questions, MOST)
    known = [answer for answer in ready if answer.pass_id != own and answer.phrasings]
    prompt = build_prediction_prompt(found, agent, known, instructions=instructions, most=most)
    answer = await ask(prompt, Predictions, most_tokens=200 + TOKENS_EACH * most)
    rows = [*found.questions, *found.turns]
    sources = collect_sources(rows, *(block.value for block in found.blocks), agent.name)
    return accept_questions(answer.questions[: 2 * most], sources)
