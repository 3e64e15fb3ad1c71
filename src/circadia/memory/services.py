"""The services of memory, as the entry points use them."""

from dataclasses import dataclass, field

from circadia.memory.banks import BankService
from circadia.memory.blocks import BlockService
from circadia.memory.context import ContextBuilder
from circadia.memory.corrections import CorrectionService
from circadia.memory.embedding.background import BackgroundEmbedder
from circadia.memory.embedding.bundled import BundledEmbedder
from circadia.memory.episodes import EpisodeService
from circadia.memory.search.retrieval import Retrieval
from circadia.memory.transfer.importer import BankImporter
from circadia.memory.uses import UseQueue
from circadia.stores.event_log import EventLog


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryServices:
    events: EventLog
    banks: BankService
    episodes: EpisodeService
    blocks: BlockService
    corrections: CorrectionService
    retrieval: Retrieval
    contexts: ContextBuilder
    intake: BankImporter
    words: BundledEmbedder
    """Vectors that take no waiting, whichever embedder searches use."""
    embedding: BackgroundEmbedder | None = None
    """None if searches use words alone."""
    uses: UseQueue = field(default_factory=UseQueue)

    def forget(self) -> None:
        """Drop all that is cached of banks."""
        self.retrieval.forget()
        self.contexts.forget()
