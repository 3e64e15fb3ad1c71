"""The interface of operations: they plan steps over new episodes and propose changes, and write nothing (SLEEP-50)."""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol, TypeVar, runtime_checkable

from pydantic import BaseModel

from circadia.answers.question_drafts import AnswerServices
from circadia.ids import EpisodeId
from circadia.llm.chat_model import ChatModel, Prompt
from circadia.memory.search.vectors import TextVectors
from circadia.records.bank import Bank
from circadia.records.block import Block
from circadia.records.change import Change
from circadia.records.episode import Episode
from circadia.records.note import Note
from circadia.records.sleep_pass import Pass
from circadia.stores.base import Store

T = TypeVar("T", bound=BaseModel)


class BankReader(Protocol):
    """Reads what a view does not hold: evidence, which is the same in a replay, and the use of notes."""

    @property
    def cached_episodes(self) -> Mapping[EpisodeId, Episode]:
        """Return the page and the episodes that were already read: without waiting."""
        ...

    async def fetch_episodes(self, ids: Collection[EpisodeId]) -> Mapping[EpisodeId, Episode]:
        """Return those of these episodes that the bank has."""
        ...

    async def search_related(self, texts: Sequence[str], *, before: int, limit: int) -> Sequence[Sequence[Episode]]:
        """Return for each text the episodes below number `before` that a search for it finds, the best first."""
        ...

    async def fetch_note_uses(self, first: int) -> Mapping[int, datetime]:
        """Return the last use by number of the notes from `first` on that agents have been given."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class PageContext:
    """A bank as a pass sees it at the beginning of a page. Nothing in it changes; `proposed` grows."""

    bank: Bank
    now: datetime
    """The time of the whole page, fixed so that a repeated pass asks the same."""
    page: Sequence[Episode]
    """New episodes in order."""
    notes: Sequence[Note]
    """Active notes in order, without vectors and `used_at`; for the latter see `look.fetch_note_uses`."""
    blocks: Sequence[Block]
    look: BankReader
    vector_of: TextVectors | None = None
    """Vectors of texts, the same in a replay; none if rows are near by words alone."""
    instructions: str = ""
    full: bool = False
    """Whether to process all notes and beliefs, not only those that this page touches."""
    stale: Collection[EpisodeId] = ()
    """Episodes that others have shown to be stale since the last pass; all stale ones in a full pass."""
    edited: Collection[str] = ()
    """Labels of blocks that others than passes have written since the last pass."""
    proposed: Sequence[Change] = ()
    """Changes of earlier operations for this page, after those of earlier pages that wait for a person."""
    drafts: dict[str, Note] = field(default_factory=dict[str, Note], compare=False)
    """Proposed notes by id, built once for a page (`project_notes`)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """A part of an operation that fails or succeeds independently."""

    name: str
    """What it is about, for people."""
    episodes: Sequence[Episode] = ()
    """Its input, which becomes a leftover if it fails. Empty if its input is not new."""
    notes: Sequence[Note] = ()
    tokens: int = 0
    """Estimated tokens of its question; 0 without one."""
    data: dict[str, object] = field(default_factory=dict[str, object])
    """Data for the operation's own use."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RefusedText:
    """A text of a step that was not kept; the step is asked once more with it, as `refused` in `Step.data`."""

    text: str
    reason: str


class ModelQueryFunction(Protocol):
    """Asks the tier's model for one operation; see `PassModelClient.ask`."""

    async def __call__(self, prompt: Prompt, output: type[T], *, most_tokens: int) -> T:
        """Return the answer. Raises ModelAnswerError, OverBudget."""
        ...


class AskAnyModel(Protocol):
    """Asks the tier's model, or another, for one operation; see `PassModelClient.ask`."""

    async def __call__(self, prompt: Prompt, output: type[T], *, most_tokens: int, model: ChatModel | None = None) -> T:
        """Return the answer. Raises ModelAnswerError, OverBudget, PassPreempted."""
        ...


class Operation(Protocol):
    """One kind of sleep-time work: built in (`operations/`), or a user's own in `sleeptime.own_operations`.

    All changes are held to the same rules: sources, ceilings, review, undo.
    """

    name: str
    """Key of its settings, and label of its metrics."""
    asks: bool

    def plan(self, view: PageContext) -> Sequence[Step]:
        """Return the steps in order, quickly and without asking a model: a dry run shows them."""
        ...

    async def propose(self, step: Step, view: PageContext, ask: ModelQueryFunction) -> Sequence[Change]:
        """Return the changes of a step, the same for the same view. Raises ModelAnswerError, OverBudget."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class PassContext:
    store: Store
    yield_to_calls: Callable[[], Awaitable[None]]
    """Returns when the next step may begin. Raises PassPreempted: a call is waiting."""
    embed: Callable[[], Awaitable[None]] | None = None
    """Makes all missing vectors. Raises UpstreamFailed."""
    run: Pass | None = None
    ask: AskAnyModel | None = None
    """Asks models; none without a model, or if it does not answer."""
    answer_services: AnswerServices | None = None


@runtime_checkable
class ClosingOperation(Protocol):
    """An operation that also acts once all pages of a pass are published; what it does needs no undo."""

    name: str

    async def close(self, bank: Bank, context: PassContext) -> Mapping[str, int]:
        """Act until a call waits, and return counts by name for the record of the pass."""
        ...
