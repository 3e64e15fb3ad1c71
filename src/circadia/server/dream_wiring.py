"""Builds dreams over a memory folder: an engine of its own on the database in the folder."""

import contextlib
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path

from circadia.clock import Clock, system_milliseconds
from circadia.ids import RandomIds
from circadia.memory.embedding.background import BackgroundEmbedder
from circadia.memory.embedding.bundled import BundledEmbedder
from circadia.memory.search import languages
from circadia.server.basis import read_secret
from circadia.server.folder import DATABASE_FILE
from circadia.server.memory_wiring import build_memory_services
from circadia.server.scratch_store import open_scratch_store
from circadia.server.sleeptime_wiring import SleepModels, build_sleep_models, build_sleep_worker, build_sleeptime
from circadia.settings import Settings
from circadia.sleeptime.markdown.anchored_folder import OWN_FOLDER, open_anchored, open_own_folder, storage_errors
from circadia.sleeptime.markdown.dream import FOLDER_RULES, Dream, PinnedTexts, choose_folder_operations
from circadia.sleeptime.markdown.folder_bank import FolderBank
from circadia.stores.event_log import EventLog


@contextlib.asynccontextmanager
async def open_dream(
    root: Path, settings: Settings, environment: Mapping[str, str], clock: Clock, *, models: SleepModels | None = None
) -> AsyncGenerator[Dream]:
    """Open the dreams of a folder; `models` replace those of the settings.

    Raises:
        ConfigError: the key of a provider is not set. StartError: the database in the folder cannot be opened.
        InvalidRequest: Circadia's own folder, or the database in it, is a symlink.
        StorageUnavailable: the disk is full, or the folder cannot be read or written.
    """
    with storage_errors(root, "no dream was started"), open_anchored(root) as folder, open_own_folder(folder) as own:
        own.file(DATABASE_FILE).refuse_symlink()
    ids = RandomIds(system_milliseconds)
    async with AsyncExitStack() as stack:
        stack.enter_context(storage_errors(root, "the next dream finishes what this one has begun"))
        if models is None:
            models = build_sleep_models(settings, partial(read_secret, environment), clock, stack, environment)
        store, signals = await stack.enter_async_context(open_scratch_store(root / OWN_FOLDER))
        languages.load()
        embedder = BundledEmbedder()
        memory = build_memory_services(settings, clock, ids, EventLog(clock, signals), embedder)
        memory = replace(memory, embedding=BackgroundEmbedder(clock, store, signals, embedder))
        pinned = PinnedTexts()
        tier = build_sleeptime(settings, clock, ids, memory)
        worker = build_sleep_worker(
            tier,
            settings,
            models,
            clock,
            ids,
            store,
            signals,
            memory,
            choose=choose_folder_operations,
            rules=(*FOLDER_RULES, pinned.check),
        )
        stack.push_async_callback(worker.drain)
        yield Dream(root, clock, ids, store, tier, worker, FolderBank(clock, store, memory), pinned)
