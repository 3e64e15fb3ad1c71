"""Asks the tier's model what an end user will ask an agent next (ANS-01).

It is shown the blocks, the newest turns of this end user with this agent, what was asked before that, and what is ready
already: nothing that tools or strangers said, and nothing of another end user's.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from circadia.ids import PassId
from circadia.llm.chat_model import Prompt
from circadia.records.agent import Agent
from circadia.records.answer import Answer, AnswerScope
from circadia.records.bank import Bank, Trust
from circadia.records.block import Block
from circadia.records.end_user import display_alias
from circadia.records.episode import Episode, EpisodeKind
from circadia.sleeptime.answers.phrasing import ExpectedQuestion, Predictions, accept_questions
from circadia.sleeptime.grounding.source_check import collect_sources
from circadia.sleeptime.proposals.numbered_lines import NumberedLines
from circadia.sleeptime.proposals.operation import AskAnyModel
from circadia.sleeptime.proposals.prompts import build_file_prompt
from circadia.sleeptime.proposals.question_drafts import AnswerServices
from circadia.stores.base import Tx

NEWEST_EPISODES: Final = 300
"""Newest episodes of a bank that are looked through."""
TURNS: Final = 30
"""Turns of a person that are shown, the newest."""
EARLIER_QUESTIONS: Final = 20
"""Questions of before that are shown."""
READY: Final = 30
"""Questions that are ready and are shown, the newest."""
LONGEST: Final = 400
"""Characters of a turn."""
LONGEST_BLOCK: Final = 2_000
"""Characters of a block."""
MOST: Final = 20
"""Questions that a model is asked for at once."""
TOKENS_EACH: Final = 200
"""Output for a question with its phrasings."""
NOBODY: Final = "user"
"""Who speaks where nobody knows who (`gateway/memory/call_memory.py`)."""
TALK: Final = frozenset({Trust.PERSON, Trust.AGENT})
"""What questions may be expected from."""
KINDS: Final = frozenset({EpisodeKind.TURN, EpisodeKind.FACT, EpisodeKind.READY})
"""The same: what was said."""


@dataclass(frozen=True, kw_only=True, slots=True)
class QuestionMaterial:
    """What questions are expected from."""

    blocks: Sequence[Block]
    """Those that say something."""
    turns: Sequence[Episode]
    """The newest, in order."""
    questions: Sequence[Episode]
    """What the person asked before those, in order."""

    @property
    def conversation(self) -> str | None:
        """Return the conversation that was last, where a question that does not stand alone belongs."""
        return self.turns[-1].session if self.turns else None


async def fetch_material(tx: Tx, bank: Bank, agent: Agent, scope: AnswerScope, *, upto: int) -> QuestionMaterial:
    """Return what the bank holds of this end user up to an episode; nothing if it is another's."""
    if bank.end_user is not None and bank.end_user != scope.end_user:
        return QuestionMaterial(blocks=(), turns=(), questions=())
    newest = await tx.episodes.find_all(bank.id, after=upto + 1, newest_first=True, limit=NEWEST_EPISODES)
    own = _select_own_turns([*reversed(newest)], bank, agent, scope)
    before = [each for each in own[:-TURNS] if each.trust is Trust.PERSON and "?" in each.text]
    return QuestionMaterial(
        blocks=[each for each in await tx.blocks.find_all(bank.id) if each.value],
        turns=own[-TURNS:], questions=before[-EARLIER_QUESTIONS:],
    )  # fmt: skip


def _select_own_turns(rows: Sequence[Episode], bank: Bank, agent: Agent, scope: AnswerScope) -> Sequence[Episode]:
    """Return what this end user and this agent said to each other.

    A conversation in which another person spoke too, or only another agent, is left out: a bank may serve many.
    """
    people: defaultdict[str, set[str]] = defaultdict(set)
    agents: defaultdict[str, set[str]] = defaultdict(set)
    for row in rows:
        if row.session is not None and row.trust in TALK:
            (people if row.trust is Trust.PERSON else agents)[row.session].add(row.speaker)
    who = scope.end_user or NOBODY
    found: list[Episode] = []
    for row in rows:
        if row.trust not in TALK or row.kind not in KINDS or row.incomplete:
            continue
        spoke = {row.speaker} if row.trust is Trust.PERSON else set[str]()
        others = agents[row.session] if row.session is not None else set[str]()
        spoke |= people[row.session] if row.session is not None else set[str]()
        his = bank.end_user is not None or (bool(spoke) and spoke <= {who, display_alias(who)})
        if his and (not others or agent.name in others):
            found.append(row)
    return found


def build_prediction_prompt(
    found: QuestionMaterial, agent: Agent, ready: Sequence[Answer], *, instructions: str, most: int
) -> Prompt:
    """Return what the model is asked."""
    sheet = NumberedLines()
    sheet.add_line(f"The assistant is called {agent.name}.")
    for block in found.blocks:
        sheet.add_block(f"Block {block.label}", block.value, LONGEST_BLOCK)
    if found.questions:
        sheet.add_heading("Asked before")
        sheet.add_episodes(found.questions, longest=LONGEST)
    if found.turns:
        sheet.add_heading("Said last")
        sheet.add_episodes(found.turns, longest=LONGEST)
    if ready:
        sheet.add_heading("Ready already")
        for each in sorted(ready, key=lambda each: each.id)[-READY:]:
            sheet.add_line(f"- {each.phrasings[0]}")
    return build_file_prompt("predict", sheet.text, instructions, questions=most)


async def predict_questions(
    found: QuestionMaterial, agent: Agent, ready: Sequence[Answer], readying: AnswerServices, ask: AskAnyModel, *,
    instructions: str, own: PassId,
) -> Sequence[ExpectedQuestion]:  # fmt: skip
    """Return what is expected and may be, the likeliest first.

    What pass `own` has made ready is not shown: so a pass that is run again asks the same, which is paid for already.

    Raises:
        Unusable, OverBudget, Yielded: nobody has answered.
    """
    if not found.turns and not found.blocks:
        return ()
    most = min(readying.settings.questions, MOST)
    known = [each for each in ready if each.pass_id != own and each.phrasings]
    prompt = build_prediction_prompt(found, agent, known, instructions=instructions, most=most)
    answer = await ask(prompt, Predictions, most_tokens=200 + TOKENS_EACH * most)
    rows = [*found.questions, *found.turns]
    said = collect_sources(rows, *(each.value for each in found.blocks), agent.name)
    return accept_questions(answer.questions[: 2 * most], said)
