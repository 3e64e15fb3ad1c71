"""Dreams over folders that nobody asks for, when their gates open: `circadia dream watch`, and a server's routine."""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from circadia.clock import Clock
from circadia.errors import CircadiaError
from circadia.records.dream_job import DreamMode
from circadia.server.dream_wiring import open_dream
from circadia.settings import Settings
from circadia.sleeptime.markdown.dream_report import DreamReport
from circadia.sleeptime.markdown.dream_status import is_due
from circadia.sleeptime.markdown.session_intake import SessionIntake

_logger = logging.getLogger(__name__)

LOOK_SECONDS: Final = 60.0
"""Between two looks at the gates, of which the first ones read a small file each."""


@dataclass(frozen=True, kw_only=True, slots=True)
class WatchedFolder:
    folder: Path
    transcripts: Path | None
    project: str | None = None
    mode: DreamMode = DreamMode.PROPOSE


class DreamWatch:
    def __init__(
        self, folders: Sequence[WatchedFolder], settings: Settings, environment: Mapping[str, str], clock: Clock, *,
        on_report: Callable[[Path, DreamReport], None] = lambda folder, report: None,
    ) -> None:  # fmt: skip
        self._folders = folders
        self._settings = settings
        self._environment = environment
        self._clock = clock
        self._on_report = on_report

    async def run(self) -> None:
        """Look and dream until cancelled; a folder that fails does not hold up the others."""
        while True:
            for each in self._folders:
                try:
                    await self.look(each)
                except (CircadiaError, OSError) as error:
                    _logger.warning("no dream over %s: %s", each.folder, error)
            await self._clock.sleep(LOOK_SECONDS)

    async def look(self, watched: WatchedFolder) -> DreamReport | None:
        """Dream if the gates are open; return the report of that dream."""
        intake = SessionIntake(self._clock, watched.transcripts, project=watched.project)
        verdict = await asyncio.to_thread(is_due, watched.folder, intake, self._clock.now())
        if not verdict.is_open:
            return None
        async with open_dream(watched.folder, self._settings, self._environment, self._clock) as dream:
            report = await dream.run(watched.mode, intake)
        _logger.info("dream over %s: %s", watched.folder, report.describe())
        self._on_report(watched.folder, report)
        return report
