"""Dreams over a folder that nobody asks for, when its gates open: `circadia dream watch`."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from circadia.clock import Clock
from circadia.errors import CircadiaError
from circadia.records.dream_job import DreamMode
from circadia.server.dream_wiring import open_dream
from circadia.settings import Settings
from circadia.sleeptime.markdown.dream_report import DreamReport
from circadia.sleeptime.markdown.dream_status import is_due
from circadia.sleeptime.markdown.sessions import SessionIntake

_logger = logging.getLogger(__name__)

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
