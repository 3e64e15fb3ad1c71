"""What an operation is: it plans steps over new episodes and proposes changes, and writes nothing (SLEEP-50)."""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol, TypeVar, runtime_checkable

from pydantic import BaseModel

from circadia.ids import EpisodeId
from circadia.llm.chat_model import ChatModel, Prompt
from circadia.memory.search.retrieval import Retrieval
from circadia.records.bank import Bank
from circadia.records.block import Block
from circadia.records.change import Change
from circadia.records.episode import Episode
from circadia.records.note import Note
from circadia.records.sleep_pass import Pass
from circadia.sleeptime.proposals.notebook import Notebook
from circadia.sleeptime.proposals.question_drafts import AnswerServices
from circadia.stores.base import Store

T = TypeVar("T", bound=BaseModel)


class BankReader(Protocol):
    """Reads what a view does not hold: what notes rest on, which is the same in a replay, and how they were used."""

    @property
    def cached_episodes(self) -> Mapping[EpisodeId, Episode]:
        """Return what was read for the page already, and the page itself: nobody has to wait for it."""
        ...

    async def fetch_episodes(self, ids: Collection[EpisodeId]) -> Mapping[EpisodeId, Episode]:
        """Return these episodes of the bank, of those that are there."""
        ...

    async def search_related(self, texts: Sequence[str], *, before: int, limit: int) -> Sequence[Sequence[Episode]]:
        """Return for each text the episodes numbered less than `before` that a search for it finds, the best first."""
        ...

    async def fetch_note_uses(self, first: int) -> Mapping[int, datetime]:
        """Return when notes numbered from `first` on were last handed to agents, by number, of those that were."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class PageContext:
    """A bank as a pass sees it at the beginning of a page. Nothing in it changes; `proposed` grows."""

    bank: Bank
    """Whose memory."""
    now: datetime
    """The instant that counts as now for the whole page, so that a pass that is run again asks the same."""
    page: Sequence[Episode]
    """New episodes in order."""
    notes: Sequence[Note]
    """Notes that are not retired, in order, without vectors and `used_at`; `look.uses` tells the latter."""
    blocks: Sequence[Block]
    """Blocks, by label."""
    look: BankReader
    """Reads more of the bank."""
    instructions: str = ""
    """What a person wants of this pass in particular."""
    full: bool = False
    """Whether all notes and beliefs are looked at again, not only what this page touches."""
    stale: Collection[EpisodeId] = ()
    """Episodes that others have shown to be over since the last pass; of a full one, all that are."""
    edited: Collection[str] = ()
    """Labels of the blocks that somebody other than a pass has written since the last one."""
    proposed: Sequence[Change] = ()
    """What operations before this one propose for this page."""
    drafts: dict[str, Note] = field(default_factory=dict[str, Note], compare=False)
    """Proposed notes by id as they will stand, made once for a page (`standing.notes`)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """A part of an operation that stands or fails alone."""

    name: str
    """What it is about, for people."""
    episodes: Sequence[Episode] = ()
    """Its input: what is tried again if it fails. Empty if its input is not new."""
    notes: Sequence[Note] = ()
    """Notes that it is about."""
    tokens: int = 0
    """About how many tokens it asks with; 0 if it asks nothing."""
    data: dict[str, object] = field(default_factory=dict[str, object])
    """What else the operation wants to remember of it."""


class ModelQueryFunction(Protocol):
    """Asks the tier's model, as `Asking.ask` does for one operation."""

    async def __call__(self, prompt: Prompt, output: type[T], *, most_tokens: int) -> T:
        """Return the answer. Raises Unusable, OverBudget."""
        ...


class AskAnyModel(Protocol):
    """Asks the tier's model, or another, as `Asking.ask` does for one operation."""

    async def __call__(self, prompt: Prompt, output: type[T], *, most_tokens: int, mind: ChatModel | None = None) -> T:
        """Return the answer. Raises Unusable, OverBudget, Yielded."""
        ...


class Operation(Protocol):
    """One kind of sleep-time work: one in `operations/`, or a user's own, which `sleeptime.own_operations` names.

    What it proposes is held to the same rules as all else: sources, ceilings, review, undo.
    """

    name: str
    """Key of its settings, and label of its metrics."""
    asks: bool
    """Whether it needs a model."""

    def plan(self, view: PageContext) -> Sequence[Step]:
        """Return what is to be done, in order. It is quick and asks nobody: a dry run shows it."""
        ...

    async def propose(self, step: Step, view: PageContext, ask: ModelQueryFunction) -> Sequence[Change]:
        """Return the changes of one step; the same step over the same view proposes the same.

        Raises:
            ModelAnswerError: its input is to be tried again. OverBudget: it is to be tried when there is room.
        """
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class PassContext:
    """What an operation works on that keeps what is derived from the bank up with it."""

    store: Store
    """The database."""
    retrieval: Retrieval
    """Searches."""
    now: datetime
    """The present."""
    go_on: Callable[[], Awaitable[None]]
    """Returns if the next step may begin. Raises PassPreempted: somebody waits."""
    embed: Callable[[], Awaitable[None]] | None = None
    """Makes all vectors that lack. Raises UpstreamFailed."""
    run: Pass | None = None
    """The pass that ends."""
    ask: AskAnyModel | None = None
    """Asks models; none if there is none, or if it does not answer."""
    readying: AnswerServices | None = None
    """What answers are made ready with."""
    notebook: Notebook = field(default_factory=Notebook)
    """Reads the bank's notes."""


@runtime_checkable
class ClosingOperation(Protocol):
    """An operation that does something once all pages of a pass are published: nothing that has to be undone."""

    name: str
    """As of any operation."""

    async def close(self, bank: Bank, ground: PassContext) -> Mapping[str, int]:
        """Do it, as far as nobody waits, and return how much was done, by name, for the record of the pass."""
        ...
