"""Opens the memory folders that the settings name."""

import asyncio
from collections.abc import Collection
from contextlib import AbstractAsyncContextManager
from pathlib import Path, PurePosixPath

from circadia.clock import Clock
from circadia.errors import InvalidRequest
from circadia.records.dream_job import DreamMode
from circadia.server.dream_wiring import open_dream
from circadia.server.sleeptime_wiring import SleepModels
from circadia.settings import Settings
from circadia.settings.dreams import DreamSettings
from circadia.sleeptime.markdown import history
from circadia.sleeptime.markdown.dream import Dream
from circadia.sleeptime.markdown.dream_report import DreamReport
from circadia.sleeptime.markdown.dream_state import DreamVerdict, load_state, save_state
from circadia.sleeptime.markdown.dream_status import DreamStatus, fetch_status, is_due
from circadia.sleeptime.markdown.history import HistoryEntry
from circadia.sleeptime.markdown.publication import PublicationResult
from circadia.sleeptime.markdown.session_intake import SessionIntake
from circadia.sleeptime.triggers.dream_requests import DreamRequests


class ConfiguredFolders:
    """It implements `MemoryFolders`. Each act opens the database in the folder, and closes it."""

    def __init__(self, requests: DreamRequests, settings: Settings, models: SleepModels, clock: Clock) -> None:
        self.requests = requests
        self._settings = settings
        self._models = models
        self._clock = clock

    def has(self, name: str) -> bool:
        return Path(self.requests.get_folder(name).folder).expanduser().is_dir()

    async def is_due(self, name: str) -> DreamVerdict:
        """Return whether a dream that nobody asked for may begin now."""
        folder = self.requests.get_folder(name)
        return await asyncio.to_thread(is_due, self._root(name), self._intake(folder), self._clock.now())

    async def fetch_status(self, name: str) -> DreamStatus:
        intake = self._intake(self.requests.get_folder(name))
        return await asyncio.to_thread(fetch_status, self._root(name), intake, self._clock, self._models[0])

    async def list_history(self, name: str) -> Collection[HistoryEntry]:
        return await asyncio.to_thread(history.list_history, self._root(name))

    async def show_diff(self, name: str, dream_id: str) -> str:
        return await asyncio.to_thread(history.show_diff, self._root(name), dream_id)

    async def dream(self, name: str, mode: DreamMode, instructions: str) -> DreamReport:
        intake = self._intake(self.requests.get_folder(name))
        async with self._open(name) as opened:
            return await opened.run(mode, intake, instructions=instructions)

    async def accept(self, name: str, files: Collection[PurePosixPath]) -> DreamReport:
        async with self._open(name) as opened:
            return await opened.accept(files)

    async def refuse(self, name: str, files: Collection[PurePosixPath]) -> int:
        async with self._open(name) as opened:
            return await opened.refuse(files)

    async def undo(self, name: str, dream_id: str) -> PublicationResult:
        async with self._open(name) as opened:
            return await opened.undo(dream_id)

    def _open(self, name: str) -> AbstractAsyncContextManager[Dream]:
        return open_dream(self._root(name), self._settings, {}, self._clock, models=self._models)

    def _root(self, name: str) -> Path:
        """Return the folder, over which dreams are switched on from now on: the settings name it (DREAM-01)."""
        root = Path(self.requests.get_folder(name).folder).expanduser()
        if not root.is_dir():
            raise InvalidRequest(f"{str(root)!r} of dreams.{name}.folder is no folder on this server's machine")
        state = load_state(root)
        if state.enabled_at is None:
            save_state(root, state, enabled_at=self._clock.now())
        return root

    def _intake(self, folder: DreamSettings) -> SessionIntake:
        transcripts = None if folder.transcripts is None else Path(folder.transcripts).expanduser()
        return SessionIntake(self._clock, transcripts, project=folder.project)
