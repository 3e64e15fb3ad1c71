"""Builds dreams over memory folders: an engine of its own on the database in each; runs them when due or asked for."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, Final, TypeVar

from circadia.clock import Clock, system_milliseconds
from circadia.errors import CircadiaError, Conflict, InvalidRequest
from circadia.ids import RandomIds
from circadia.memory import languages
from circadia.memory.embedding.background import BackgroundEmbedder
from circadia.memory.embedding.bundled import BundledEmbedder
from circadia.records.dream_job import DreamMode
from circadia.server.context import ServerContext
from circadia.server.folder import DATABASE_FILE
from circadia.server.memory_wiring import build_memory_services
from circadia.server.scratch_store import open_scratch_store
from circadia.server.sleeptime_wiring import SleepModels, build_sleep_models, build_sleep_parts, build_sleeptime
from circadia.settings import Settings
from circadia.sleeptime.engine.worker import SleepWorker
from circadia.sleeptime.markdown import publication
from circadia.sleeptime.markdown.anchored_folder import OWN_FOLDER, open_anchored, open_own_folder, storage_errors
from circadia.sleeptime.markdown.changeset import Changeset
from circadia.sleeptime.markdown.dream import FOLDER_RULES, Dream, choose_folder_operations
from circadia.sleeptime.markdown.dream_state import DreamReport, load_state, save_state
from circadia.sleeptime.markdown.dream_status import DreamStatus, fetch_status, find_wait
from circadia.sleeptime.markdown.folder_bank import FolderBank
from circadia.sleeptime.markdown.folder_edits import OpenFolder
from circadia.sleeptime.markdown.folder_lock import lock_memory_folder
from circadia.sleeptime.markdown.publication import PublicationResult
from circadia.sleeptime.markdown.sessions import SessionIntake, find_memory_folder, find_transcripts
from circadia.sleeptime.triggers.dream_requests import DreamRequests
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
        await languages.ensure_loaded()
        embedder = BundledEmbedder()
        memory = build_memory_services(settings, clock, ids, EventLog(clock, signals), embedder)
        memory = replace(memory, embedding=BackgroundEmbedder(clock, store, signals, embedder))
        opened = OpenFolder()
        sleeptime = build_sleeptime(settings, clock, ids, memory)
        parts = replace(
            build_sleep_parts(settings, ids, store, signals, sleeptime, memory, models),
            operations=partial(choose_folder_operations, opened), rules=(*FOLDER_RULES, opened.check_pinned),
        )  # fmt: skip
        worker = SleepWorker(clock, parts, owner=ids.new("exe"), alone=settings.server.database_url is None)
        stack.push_async_callback(worker.drain)
        yield Dream(
            root, clock, ids, store, sleeptime, worker, FolderBank(clock, store, memory), opened,
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
        if not await asyncio.to_thread(find_wait, self._folder, self._intake, self._clock.now()):
            async with open_dream(self._folder, self._settings, self._environment, self._clock) as dream:
                report = await dream.run(self._mode, self._intake)
            _logger.info("dream over %s: %s", self._folder, report.describe())
            self._on_report(report)


T = TypeVar("T")


async def run_in_own_loop(work: Coroutine[Any, Any, T]) -> T:
    """Return what `work` returns; a cancellation of the caller cancels `work`, and waits for its end."""
    runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
    loop = runner.get_loop()
    task = loop.create_task(work)

    def run() -> T:
        with runner:
            return loop.run_until_complete(task)

    thread = ThreadPoolExecutor(1, "own-loop")  # the few threads of the server's loop are for short work
    running = asyncio.get_running_loop().run_in_executor(thread, run)
    thread.shutdown(wait=False)
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        with suppress(RuntimeError):  # it has just ended
            loop.call_soon_threadsafe(task.cancel)
        await asyncio.wait([running])
        raise


class ConfiguredFolders:
    """It implements `MemoryFolders`.

    Each act opens the database in the folder, and closes it. It runs beside the server's event loop, for files, git and
    the parsing of long sessions take their time.
    """

    def __init__(
        self, requests: DreamRequests, settings: Settings, environment: Mapping[str, str], models: SleepModels,
        clock: Clock,
    ) -> None:  # fmt: skip
        """`models` tell the price of the next dream; each dream has its own."""
        self.requests = requests
        self._settings = settings
        self._environment = environment
        self._models = models
        self._clock = clock
        self._threads = ThreadPoolExecutor(2, "memory-folders")
        """A look at many long sessions takes minutes: the threads of the server's loop stay free."""

    async def has(self, name: str) -> bool:
        """Return whether the folder is on this machine."""
        return await self._read(lambda: self._find(name).is_dir())

    async def find_wait(self, name: str) -> str:
        """Return what a dream that nobody asked for waits for; empty if it is due."""
        return await self._read(lambda: find_wait(self._root(name), self._build_intake(name), self._clock.now()))

    async def is_busy(self, name: str) -> bool:
        """Return whether some process dreams over the folder."""

        def is_locked() -> bool:
            try:
                with lock_memory_folder(self._root(name), self._clock):
                    return False
            except Conflict:
                return True

        return await self._read(is_locked)

    async def fetch_status(self, name: str) -> DreamStatus:
        return await self._read(
            lambda: fetch_status(self._root(name), self._build_intake(name), self._clock, self._models[0])
        )

    async def list_history(self, name: str) -> Collection[Changeset]:
        return await self._read(lambda: publication.list_history(self._root(name)))

    async def show_diff(self, name: str, dream_id: str) -> str:
        return await self._read(lambda: publication.show_diff(self._root(name), dream_id))

    async def dream(self, name: str, mode: DreamMode, instructions: str) -> DreamReport:
        """Dream now. Raises Conflict: another process dreams over the folder, or changes wait for a person."""
        return await self._act(
            name, lambda opened: opened.run(mode, self._build_intake(name), instructions=instructions)
        )

    async def accept(self, name: str, files: Collection[PurePosixPath]) -> DreamReport:
        return await self._act(name, lambda opened: opened.accept(files))

    async def refuse(self, name: str, files: Collection[PurePosixPath]) -> int:
        return await self._act(name, lambda opened: opened.refuse(files))

    async def undo(self, name: str, dream_id: str) -> PublicationResult:
        return await self._act(name, lambda opened: opened.undo(dream_id))

    async def _read(self, read: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, read)

    async def _act(self, name: str, act: Callable[[Dream], Awaitable[T]]) -> T:
        async def work() -> T:
            async with open_dream(self._root(name), self._settings, self._environment, self._clock) as opened:
                return await act(opened)

        return await run_in_own_loop(work())

    def _root(self, name: str) -> Path:
        """Return the folder, over which dreams are switched on from now on: the settings name it (DREAM-01)."""
        root = self._find(name)
        if not root.is_dir():
            raise InvalidRequest(f"{str(root)!r} of dreams.{name}.folder is no folder on this server's machine")
        state = load_state(root)
        if state.enabled_at is None:
            save_state(root, state, enabled_at=self._clock.now())
        return root

    def _find(self, name: str) -> Path:
        folder = self.requests.get_folder(name)
        return find_memory_folder(Path(folder.folder).expanduser(), self._environment, repository=folder.repository)

    def _build_intake(self, name: str) -> SessionIntake:
        folder = self.requests.get_folder(name)
        stated = folder.transcripts
        root = self._find(name)
        transcripts = find_transcripts(root) if stated is None else Path(stated).expanduser()
        return SessionIntake(self._clock, transcripts, folder=root, project=folder.project, programs=folder.programs)


def build_memory_folders(context: ServerContext, models: SleepModels) -> ConfiguredFolders:
    requests = DreamRequests(context.clock, context.ids, context.events, context.settings.dreams)
    return ConfiguredFolders(requests, context.settings, context.environment, models, context.clock)
