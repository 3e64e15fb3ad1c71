"""The services of memory, as the entrances use them."""

from dataclasses import dataclass, field

from circadia.memory.banks import BankService
from circadia.memory.blocks import BlockService
from circadia.memory.context import ContextBuilder
from circadia.memory.embedding.background import BackgroundEmbedder
from circadia.memory.embedding.bundled import BundledEmbedder
from circadia.memory.episodes import EpisodeService
from circadia.memory.search.retrieval import Retrieval
from circadia.memory.transfer.importer import BankImporter
from circadia.memory.uses import UseQueue


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryServices:
    """The services of memory."""

    banks: BankService
    """Banks, and who may open them."""
    episodes: EpisodeService
    """What happened."""
    blocks: BlockService
    """The learned context."""
    retrieval: Retrieval
    """Searches."""
    contexts: ContextBuilder
    """What goes into prompts."""
    intake: BankImporter
    """Imports."""
    words: BundledEmbedder
    """Vectors that need no waiting, whichever embedder searches use."""
    embedding: BackgroundEmbedder | None = None
    """What makes vectors; none if searches go by words alone."""
    uses: UseQueue = field(default_factory=UseQueue)
    """What was handed to agents lately."""
