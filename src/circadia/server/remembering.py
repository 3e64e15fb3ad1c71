"""Joins memory: the part of `wiring` that picks its classes."""

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import aiohttp

from circadia.clock import Clock
from circadia.gateway.answer_book import AnswerBook
from circadia.gateway.dreamt import Dreamt
from circadia.gateway.inject import Injection
from circadia.gateway.ready import Answering
from circadia.gateway.remember import Exchanges, Remembering
from circadia.ids import IdSource
from circadia.llm import local_weights
from circadia.memory import languages
from circadia.memory.attribution import Attribution
from circadia.memory.banks import USER, Banks, NewBank
from circadia.memory.blocks import Blocks
from circadia.memory.capture import Capturing
from circadia.memory.context import Contexts
from circadia.memory.embedding.background import Background
from circadia.memory.embedding.base import Embedder
from circadia.memory.embedding.bundled import BundledEmbedder
from circadia.memory.embedding.endpoint import EndpointEmbedder
from circadia.memory.embedding.fast import FastEmbedder
from circadia.memory.embedding.local import LocalEmbedder
from circadia.memory.embedding.questions import QuestionVectors, Reading
from circadia.memory.episodes import Episodes
from circadia.memory.retrieval import Retrieval
from circadia.memory.tier import Memory
from circadia.memory.transfer.intake import Intake
from circadia.settings import Settings
from circadia.settings.memory import (
    BundledEmbedderSettings,
    EmbedderSettings,
    EndpointEmbedderSettings,
    FastembedEmbedderSettings,
    LocalEmbedderSettings,
)
from circadia.sleeptime.tier import Sleeptime
from circadia.stores.base import Store
from circadia.stores.signals.base import Signals

Secret = Callable[[str, str | None], str | None]
"""Gives the value of the variable that a setting names, or none. Raises ConfigError: it is not set."""


def memory_parts(
    settings: Settings,
    secret: Secret,
    session: aiohttp.ClientSession,
    clock: Clock,
    ids: IdSource,
    store: Store,
    signals: Signals,
) -> tuple[Memory, Sequence[Background]]:
    """Build the services, and what is to run beside them.

    Raises:
        ConfigError: a variable is not set, a key is none, a package is not installed, or weights are not fetched.
    """
    chosen = settings.memory
    embedder = made_embedder("memory.embedder", chosen.embedder, secret, session)
    before = made_embedder("memory.previous_embedder", chosen.previous_embedder, secret, session)
    previous = None if before is None else Reading(before)
    languages.load()
    memory = memory_tier(settings, clock, ids, signals, embedder, previous)
    if embedder is None:
        return memory, ()
    background = Background(
        clock, store, signals, embedder, previous, taken_in=partial(memory.retrieval.keep_up, store)
    )
    return replace(memory, embedding=background), (background,)


def memory_tier(
    settings: Settings,
    clock: Clock,
    ids: IdSource,
    signals: Signals,
    embedder: Embedder | None,
    previous: Reading | None = None,
) -> Memory:
    """Build the services. Without an embedder searches go by words; `previous` is read as long as it is needed."""
    readings = [Reading(embedder)] if embedder is not None else []
    if previous is not None:
        readings.append(previous)
    questions = QuestionVectors(clock, readings, timeout_seconds=settings.memory.question_timeout_seconds)
    retrieval = Retrieval(clock, questions, max_bytes=settings.memory.max_index_bytes)
    banks = Banks(clock, ids, {name: each.policy() for name, each in settings.banks.items()})
    episodes = Episodes(clock, ids, signals)
    words = embedder if isinstance(embedder, BundledEmbedder) else BundledEmbedder()
    return Memory(
        banks=banks,
        episodes=episodes,
        blocks=Blocks(clock),
        retrieval=retrieval,
        contexts=Contexts(retrieval),
        intake=Intake(clock, banks, episodes),
        words=words,
    )


def made_embedder(
    where: str, chosen: EmbedderSettings | None, secret: Secret, session: aiohttp.ClientSession
) -> Embedder | None:
    """Return the embedder of the section `where`.

    Raises:
        ConfigError: a variable is not set, a key is none, a package is not installed, or weights are not fetched.
    """
    match chosen:
        case BundledEmbedderSettings():
            return BundledEmbedder()
        case EndpointEmbedderSettings():
            return EndpointEmbedder(session, chosen, secret(where, chosen.key_env))
        case LocalEmbedderSettings():
            return LocalEmbedder(chosen, local_weights.models_folder(os.environ))
        case FastembedEmbedderSettings():
            return FastEmbedder(chosen)
        case _:
            return None


def at_gateway(
    clock: Clock, store: Store, signals: Signals, memory: Memory, dreams: Sleeptime, answering: Answering,
    book: AnswerBook,
) -> tuple[Exchanges, Remembering]:  # fmt: skip
    """Build what writes exchanges behind the answers, and what the gateway tells of its calls."""
    exchanges = Exchanges(clock, store, Capturing(clock, memory.banks, memory.episodes), Attribution(clock))
    injection = Injection(store, memory, Dreamt(signals, dreams), answering)
    return exchanges, Remembering(clock, signals, injection, exchanges, memory.uses, answering, book)


async def file_banks(settings: Settings, store: Store, memory: Memory) -> None:
    """Make the banks that the file names and there are not yet; set all, those of templates too, to what it states.

    A policy that a person has set for a bank stays.
    """
    async with store.write() as tx:
        for name, each in settings.banks.items():
            if USER in name:
                found = await tx.banks.every(template=name)
            else:
                found = [bank for bank in [await tx.banks.by_name(name)] if bank is not None]
                if not found:
                    new = NewBank(name=name, description=each.description, policy=each.policy())
                    await memory.banks.create(tx, new, by="file")
            for bank in found:
                description = bank.description if bank.template else each.description
                policy = bank.policy if bank.policy.own else each.over(bank.policy)
                if (bank.description, bank.policy) != (description, policy):
                    await memory.banks.change(tx, bank, by="file", description=description, policy=policy)
