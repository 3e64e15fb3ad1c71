"""Looks at a glance: they show what a transaction shows, whoever writes, and count what is asked once."""

import random
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from circadia.memory.context import Context, ContextBuilder
from circadia.memory.forgetting import forget
from circadia.memory.search.question import Question
from circadia.memory.search.retrieval import Retrieval
from circadia.stores.base import Store, Tx
from tests.memory.world import EMBEDDER, World, vector

AGAIN_SECONDS = 1.0

WORDS = ("cats", "dogs", "bees", "boats", "Porto", "Faro")
GLANCE, READ = "glance", "read"


@dataclass
class ReadLogStore:
    """A store that tells how it is read."""

    store: Store
    seen: list[str] = field(default_factory=list[str])

    @asynccontextmanager
    async def begin_single_read(self) -> AsyncGenerator[Tx]:
        self.seen.append(GLANCE)
        async with self.store.begin_single_read() as tx:
            yield tx

    @asynccontextmanager
    async def begin_read(self) -> AsyncGenerator[Tx]:
        self.seen.append(READ)
        async with self.store.begin_read() as tx:
            yield tx

    def take(self) -> list[str]:
        """Return how it was read since the last time."""
        taken, self.seen = self.seen, []
        return taken


async def shown(
    world: World,
    store: Store | ReadLogStore,
    contexts: ContextBuilder,
    retrieval: Retrieval,
    question: Question,
    what: object,
) -> Context:
    """Return the context of a question in the world's bank, at a glance if it is told `what` is looked at."""

    async def work(tx: Tx) -> Context:
        bank = await tx.banks.get_by_name("ann")
        assert bank is not None
        return await contexts.build(tx, bank, question, stable_tokens=300, fitting_tokens=300)

    return await retrieval.glances.run_read(store, what, work)  # type: ignore[arg-type]


async def change(world: World, draw: random.Random) -> None:
    """Change something of the bank, as another process does."""
    some = " ".join(draw.choices(WORDS, k=3))
    async with world.store.begin_read() as tx:
        known = await tx.episodes.find_all(world.bank.id)
    kind = draw.choice(("say", "say", "embed", "write", "forget", "demote", "nothing", "nothing"))
    if kind == "say":
        await world.remember(f"{some} {draw.random()}")
    elif kind == "embed":
        await world.embed({each.number: each.text for each in known if each.embedder is None})
    elif kind == "write":
        await world.write(draw.choice(("human", "task")), some, pinned=draw.random() < 0.5)
    elif kind == "forget" and known:
        async with world.store.begin_write() as tx:
            await forget(tx, await world.present(), [draw.choice(known).id])


@pytest.mark.spec("MEM-02", "MEM-13")
async def test_what_is_shown_at_a_glance_is_what_a_transaction_shows_after_any_change_of_another_process(
    world: World,
) -> None:
    draw = random.Random(7)
    watched, retrieval = ReadLogStore(world.store), Retrieval(world.clock, world.questions, max_bytes=10**9)
    contexts, seen = ContextBuilder(retrieval), list[str]()
    for _ in range(80):
        await change(world, draw)
        world.clock.advance(AGAIN_SECONDS)
        word = draw.choice(WORDS)
        world.questions.by_question[word] = {EMBEDDER: vector(word)}
        question = await retrieval.prepare_question(word, explained=False)
        found = await shown(world, watched, contexts, retrieval, question, "ann")
        seen.append(" ".join(watched.take()))
        anew = Retrieval(world.clock, world.questions, max_bytes=10**9)
        assert found == await shown(world, world.store, ContextBuilder(anew), anew, question, None)
    assert {*seen} == {GLANCE, f"{GLANCE} {READ}"}


async def test_after_a_glance_that_was_not_enough_none_is_tried_for_a_while(world: World) -> None:
    watched, retrieval = ReadLogStore(world.store), world.retrieval
    question = await retrieval.prepare_question("bees")

    async def asked(what: object) -> list[str]:
        await shown(world, watched, world.contexts, retrieval, question, what)
        return watched.take()

    await world.remember("Ann has bees.")
    assert await asked("ann") == [GLANCE, READ]
    assert [await asked("ann"), await asked("bob"), await asked(None)] == [[READ], [GLANCE], [READ]]
    world.clock.advance(AGAIN_SECONDS)
    assert [await asked("ann"), await asked("ann")] == [[GLANCE], [GLANCE]]
