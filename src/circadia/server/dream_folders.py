"""Opens the memory folders that the settings name."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PurePosixPath
from typing import TypeVar

from circadia.clock import Clock
from circadia.errors import Conflict, InvalidRequest
from circadia.records.dream_job import DreamMode
from circadia.server.basis import ServerBasis
from circadia.server.dream_wiring import open_dream
from circadia.server.own_loop import run_in_own_loop
from circadia.server.sleeptime_wiring import SleepModels
from circadia.settings import Settings
from circadia.sleeptime.markdown import history
from circadia.sleeptime.markdown.dream import Dream
from circadia.sleeptime.markdown.dream_report import DreamReport
from circadia.sleeptime.markdown.dream_state import DreamVerdict, load_state, save_state
from circadia.sleeptime.markdown.dream_status import DreamStatus, fetch_status, is_due
from circadia.sleeptime.markdown.folder_lock import lock_memory_folder
from circadia.sleeptime.markdown.history import HistoryEntry
from circadia.sleeptime.markdown.publication import PublicationResult
from circadia.sleeptime.markdown.sessions import SessionIntake, find_memory_folder, find_transcripts
from circadia.sleeptime.triggers.dream_requests import DreamRequests
from circadia.stores.event_log import EventLog

T = TypeVar("T")


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
        return await self._look(lambda: self._find(name).is_dir())

    async def is_due(self, name: str) -> DreamVerdict:
        """Return whether a dream that nobody asked for may begin now."""
        return await self._look(lambda: is_due(self._root(name), self._build_intake(name), self._clock.now()))

    async def is_busy(self, name: str) -> bool:
        """Return whether some process dreams over the folder."""

        def look() -> bool:
            try:
                with lock_memory_folder(self._root(name), self._clock):
                    return False
            except Conflict:
                return True

        return await self._look(look)

    async def fetch_status(self, name: str) -> DreamStatus:
        return await self._look(
            lambda: fetch_status(self._root(name), self._build_intake(name), self._clock, self._models[0])
        )

    async def list_history(self, name: str) -> Collection[HistoryEntry]:
        return await self._look(lambda: history.list_history(self._root(name)))

    async def show_diff(self, name: str, dream_id: str) -> str:
        return await self._look(lambda: history.show_diff(self._root(name), dream_id))

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

    async def _look(self, look: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, look)

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
        return find_memory_folder(Path(self.requests.get_folder(name).folder).expanduser(), Path.home())

    def _build_intake(self, name: str) -> SessionIntake:
        folder = self.requests.get_folder(name)
        given = folder.transcripts
        transcripts = find_transcripts(self._find(name)) if given is None else Path(given).expanduser()
        return SessionIntake(self._clock, transcripts, project=folder.project)


def build_memory_folders(basis: ServerBasis, events: EventLog, models: SleepModels) -> ConfiguredFolders:
    requests = DreamRequests(basis.clock, basis.ids, events, basis.settings.dreams)
    return ConfiguredFolders(requests, basis.settings, basis.environment, models, basis.clock)
