"""Builds dreams over a memory folder: an engine of its own on the database in the folder; and runs them when due."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Final

from circadia.clock import Clock, system_milliseconds
from circadia.errors import CircadiaError
from circadia.ids import RandomIds
from circadia.memory.embedding.background import BackgroundEmbedder
from circadia.memory.embedding.bundled import BundledEmbedder
from circadia.memory.search import languages
from circadia.records.dream_job import DreamMode
from circadia.server.folder import DATABASE_FILE
from circadia.server.memory_wiring import build_memory_services
from circadia.server.scratch_store import open_scratch_store
from circadia.server.sleeptime_wiring import SleepModels, build_sleep_models, build_sleep_parts, build_sleeptime
from circadia.settings import Settings
from circadia.sleeptime.engine.worker import SleepWorker
from circadia.sleeptime.markdown.anchored_folder import OWN_FOLDER, open_anchored, open_own_folder, storage_errors
from circadia.sleeptime.markdown.dream import FOLDER_RULES, Dream, PinnedTexts, choose_folder_operations
from circadia.sleeptime.markdown.dream_report import DreamReport
from circadia.sleeptime.markdown.dream_status import is_due
from circadia.sleeptime.markdown.folder_bank import FolderBank
from circadia.sleeptime.markdown.session_intake import SessionIntake
from circadia.stores.event_log import EventLog

_logger = logging.getLogger(__name__)


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
            models = build_sleep_models(settings, environment, clock, stack)
        store, signals = await stack.enter_async_context(open_scratch_store(root / OWN_FOLDER))
        languages.load()
        embedder = BundledEmbedder()
        memory = build_memory_services(settings, clock, ids, EventLog(clock, signals), embedder)
        memory = replace(memory, embedding=BackgroundEmbedder(clock, store, signals, embedder))
        pinned = PinnedTexts()
        sleeptime = build_sleeptime(settings, clock, ids, memory)
        parts = replace(
            build_sleep_parts(settings, ids, store, signals, sleeptime, memory, models),
            operations=choose_folder_operations, rules=(*FOLDER_RULES, pinned.check),
        )  # fmt: skip
        worker = SleepWorker(clock, parts, owner=ids.new("exe"), alone=settings.server.database_url is None)
        stack.push_async_callback(worker.drain)
        yield Dream(
            root, clock, ids, store, signals, sleeptime, worker, FolderBank(clock, store, memory), pinned,
        )  # fmt: skip


LOOK_SECONDS: Final = 60.0
"""Between two looks at the gates, of which the first ones read a small file each."""


class DreamWatch:
    def __init__(
        self, folder: Path, intake: SessionIntake, mode: DreamMode, settings: Settings, environment: Mapping[str, str],
        clock: Clock, on_report: Callable[[DreamReport], None],
    ) -> None:  # fmt: skip
        self._folder = folder
        self._intake = intake
        self._mode = mode
        self._settings = settings
        self._environment = environment
        self._clock = clock
        self._on_report = on_report

    async def run(self) -> None:
        """Look and dream until cancelled, also after a dream that was not possible."""
        while True:
            try:
                await self._look()
            except (CircadiaError, OSError) as error:
                _logger.warning("no dream over %s: %s", self._folder, error)
            await self._clock.sleep(LOOK_SECONDS)

    async def _look(self) -> None:
        """Dream if the gates are open."""
        verdict = await asyncio.to_thread(is_due, self._folder, self._intake, self._clock.now())
        if verdict.is_open:
            async with open_dream(self._folder, self._settings, self._environment, self._clock) as dream:
                report = await dream.run(self._mode, self._intake)
            _logger.info("dream over %s: %s", self._folder, report.describe())
            self._on_report(report)
