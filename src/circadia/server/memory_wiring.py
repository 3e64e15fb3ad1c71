"""Builds memory: the part of `wiring` that picks its classes."""

import importlib
import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from circadia.clock import Clock
from circadia.gateway.answers.answer_book import AnswerBook
from circadia.gateway.answers.serving import AnswerResolver
from circadia.gateway.memory.call_memory import CallMemory, ExchangeQueue
from circadia.gateway.memory.injection import Injection
from circadia.gateway.memory.notices import ChangeNotice
from circadia.ids import IdSource
from circadia.llm import local_weights
from circadia.memory.banks import USER, BankService, NewBank
from circadia.memory.blocks import BlockService
from circadia.memory.capture.attribution import Attribution
from circadia.memory.capture.recorder import Exchange, ExchangeRecorder
from circadia.memory.context import ContextBuilder
from circadia.memory.corrections import CorrectionService
from circadia.memory.embedding.background import BackgroundEmbedder, BackgroundSplitter
from circadia.memory.embedding.base import Embedder
from circadia.memory.embedding.bundled import BundledEmbedder
from circadia.memory.embedding.in_process import E5Embedder, FastEmbedder, LocalEmbedder
from circadia.memory.embedding.questions import ActiveEmbedder, QuestionVectors
from circadia.memory.episodes import EpisodeService
from circadia.memory.search.retrieval import Retrieval
from circadia.memory.services import MemoryServices
from circadia.memory.transfer.importer import BankImporter
from circadia.records.bank import Bank, BankPolicy
from circadia.server.context import Secret, ServerContext
from circadia.settings import Settings
from circadia.settings.memory import (
    BankSettings,
    BundledEmbedderSettings,
    EmbedderSettings,
    EndpointEmbedderSettings,
    FastembedEmbedderSettings,
    LocalEmbedderSettings,
)
from circadia.sleeptime.engine.services import SleeptimeService
from circadia.stores.base import Store, Tx
from circadia.stores.event_log import EventLog
from circadia.stores.locks import START_KEY, bank_key

if TYPE_CHECKING:
    import aiohttp

BANKS_AT_ONCE = 500
"""Banks of a template that are brought in line with the file at once."""


def build_memory(context: ServerContext) -> tuple[MemoryServices, BackgroundEmbedder | BackgroundSplitter]:
    """Build the memory services and their background task; raises what `build_embedder` raises."""
    clock, store, chosen = context.clock, context.store, context.settings.memory
    embedder = build_embedder("memory.embedder", chosen.embedder, context.read_secret, context.session.open)
    before = build_embedder(
        "memory.previous_embedder", chosen.previous_embedder, context.read_secret, context.session.open
    )
    previous = None if before is None else ActiveEmbedder(before)
    memory = build_memory_services(context.settings, clock, context.ids, context.events, embedder, previous)
    if embedder is None:
        return memory, BackgroundSplitter(clock, store)
    background = BackgroundEmbedder(
        clock, store, context.signals, embedder, previous, taken_in=partial(memory.retrieval.keep_up, store),
        events=context.events,
    )  # fmt: skip
    return replace(memory, embedding=background), background


def build_memory_services(
    settings: Settings,
    clock: Clock,
    ids: IdSource,
    events: EventLog,
    embedder: Embedder | None,
    previous: ActiveEmbedder | None = None,
) -> MemoryServices:
    """Build the services; without an embedder, search uses words only. `previous` stays readable while it is needed."""
    active = [ActiveEmbedder(embedder)] if embedder is not None else []
    if previous is not None:
        active.append(previous)
    questions = QuestionVectors(clock, active, timeout_seconds=settings.memory.question_timeout_seconds)
    retrieval = Retrieval(clock, questions, max_bytes=settings.memory.max_index_bytes)
    banks = BankService(clock, ids, events, {name: file_bank.policy() for name, file_bank in settings.banks.items()})
    episodes = EpisodeService(clock, ids, events)
    words = embedder if isinstance(embedder, BundledEmbedder) else BundledEmbedder()
    return MemoryServices(
        events=events,
        banks=banks,
        episodes=episodes,
        blocks=BlockService(clock, events),
        retrieval=retrieval,
        contexts=ContextBuilder(retrieval),
        corrections=CorrectionService(clock, episodes, events),
        intake=BankImporter(clock, events, banks, episodes),
        words=words,
    )


def build_embedder(
    where: str, chosen: EmbedderSettings | None, secret: Secret, open_session: Callable[[], "aiohttp.ClientSession"]
) -> Embedder | None:
    """Return the embedder. Raises ConfigError if a variable, package or weights are missing, or a key is invalid."""
    match chosen:
        case BundledEmbedderSettings():
            return BundledEmbedder()
        case EndpointEmbedderSettings():
            endpoint: Any = importlib.import_module("circadia.memory.embedding.endpoint")
            return endpoint.EndpointEmbedder(open_session(), chosen, secret(where, chosen.key_env))
        case LocalEmbedderSettings():
            if chosen.model == "e5":
                return E5Embedder()
            return LocalEmbedder(chosen, local_weights.models_folder(os.environ))
        case FastembedEmbedderSettings():
            return FastEmbedder(chosen)
        case _:
            return None


def build_gateway_memory(
    context: ServerContext,
    memory: MemoryServices,
    sleeptime: SleeptimeService,
    resolver: AnswerResolver,
    answers: AnswerBook,
) -> tuple[ExchangeQueue, CallMemory]:
    clock, store, signals = context.clock, context.store, context.signals
    exchanges = ExchangeQueue(
        clock, store, context.build_spool("exchanges", [Exchange]),
        ExchangeRecorder(clock, memory.banks, memory.episodes), Attribution(clock),
    )  # fmt: skip
    injection = Injection(store, signals, memory, ChangeNotice(signals, sleeptime), resolver)
    return exchanges, CallMemory(clock, signals, injection, exchanges, memory.uses, resolver, answers, context.contact)


async def apply_file_banks(settings: Settings, store: Store, memory: MemoryServices) -> None:
    """Create the missing banks of the file, and update all, including those of templates, to match it.

    A policy that a person has set for a bank stays.
    """
    banks = memory.banks
    named = {name: file_bank for name, file_bank in settings.banks.items() if USER not in name}
    async with store.begin_write(START_KEY) as tx:
        known = {bank.name: bank for bank in await tx.banks.find_by_names(named)}
        await tx.hold(*(bank_key(bank.id) for bank in known.values()))
        for name, file_bank in named.items():
            if name in known:
                await _match_file(tx, banks, known[name], file_bank)
            else:
                new = NewBank(name=name, description=file_bank.description, policy=file_bank.policy())
                await banks.create(tx, new, by="file")
    for name in settings.banks.keys() - named.keys():
        await _apply_to_template(store, banks, name, settings.banks[name])


async def _apply_to_template(store: Store, service: BankService, template: str, file_bank: BankSettings) -> None:
    """Update the banks of a template, a page at a time: it may have one for each of 100,000 end users."""
    after = ""
    while True:
        async with store.begin_read() as tx:
            page = await tx.banks.find_all(template=template, after=after, limit=BANKS_AT_ONCE)
        others = [bank for bank in page if _matching_policy(bank, file_bank) != bank.policy]
        if others:
            async with store.begin_write(START_KEY, *(bank_key(bank.id) for bank in others)) as tx:
                for bank in others:
                    current = await tx.banks.get(bank.id)
                    if current is not None:
                        await _match_file(tx, service, current, file_bank)
        if len(page) < BANKS_AT_ONCE:
            return
        after = page[-1].name


async def _match_file(tx: Tx, service: BankService, bank: Bank, file_bank: BankSettings) -> None:
    description = bank.description if bank.template else file_bank.description
    policy = _matching_policy(bank, file_bank)
    if (bank.description, bank.policy) != (description, policy):
        await service.change(tx, bank, by="file", description=description, policy=policy)


def _matching_policy(bank: Bank, file_bank: BankSettings) -> BankPolicy:
    return bank.policy if bank.policy.own else file_bank.apply_to(bank.policy)
