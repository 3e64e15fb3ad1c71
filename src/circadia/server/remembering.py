"""Joins memory: the part of `wiring` that picks its classes."""

from circadia.clock import Clock
from circadia.ids import IdSource
from circadia.memory.banks import Banks, NewBank
from circadia.memory.blocks import Blocks
from circadia.memory.context import Contexts
from circadia.memory.embedding.base import Embedder
from circadia.memory.embedding.questions import QuestionVectors
from circadia.memory.episodes import Episodes
from circadia.memory.retrieval import Retrieval
from circadia.memory.tier import Memory
from circadia.settings import Settings
from circadia.stores.base import Store
from circadia.stores.signals.base import Signals


def memory_tier(settings: Settings, clock: Clock, ids: IdSource, signals: Signals, embedder: Embedder) -> Memory:
    """Build the services."""
    questions = QuestionVectors([embedder], timeout_seconds=settings.memory.question_timeout_seconds)
    retrieval = Retrieval(clock, questions, max_rows=settings.memory.max_indexed_rows)
    return Memory(
        banks=Banks(clock, ids, {name: each.policy() for name, each in settings.banks.items()}),
        episodes=Episodes(clock, ids, signals),
        blocks=Blocks(clock),
        retrieval=retrieval,
        contexts=Contexts(retrieval),
    )


async def file_banks(settings: Settings, store: Store, memory: Memory) -> None:
    """Make the banks of the file that there are not yet, and give the others what the file says of them."""
    async with store.write() as tx:
        for name, each in settings.banks.items():
            if "{user}" in name:
                continue
            found = await tx.banks.by_name(name)
            if found is None:
                new = NewBank(name=name, description=each.description, policy=each.policy())
                await memory.banks.create(tx, new, by="file")
            elif (found.description, found.policy) != (each.description, each.policy()):
                await memory.banks.change(
                    tx, found, by="file", description=each.description, policy=each.policy()
                )  # fmt: skip
