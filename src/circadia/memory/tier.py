"""The services of memory, as the entrances use them."""

from dataclasses import dataclass, field

from circadia.memory.banks import Banks
from circadia.memory.blocks import Blocks
from circadia.memory.context import Contexts
from circadia.memory.embedding.background import Background
from circadia.memory.embedding.bundled import BundledEmbedder
from circadia.memory.episodes import Episodes
from circadia.memory.retrieval import Retrieval
from circadia.memory.transfer.intake import Intake
from circadia.memory.uses import Uses


@dataclass(frozen=True, kw_only=True, slots=True)
class Memory:
    """The services of memory."""

    banks: Banks
    """Banks, and who may open them."""
    episodes: Episodes
    """What happened."""
    blocks: Blocks
    """The learned context."""
    retrieval: Retrieval
    """Searches."""
    contexts: Contexts
    """What goes into prompts."""
    intake: Intake
    """Imports."""
    words: BundledEmbedder
    """Vectors that need no waiting, whichever embedder searches use."""
    embedding: Background | None = None
    """What makes vectors; none if searches go by words alone."""
    uses: Uses = field(default_factory=Uses)
    """What was handed to agents lately."""
