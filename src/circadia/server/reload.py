"""Reads the configuration file again when it changes: what it says of agents holds at once (WAKE-16)."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from circadia.clock import Clock
from circadia.errors import CircadiaError, StorageUnavailable
from circadia.settings import ConfigFile, Settings, load_settings

_logger = logging.getLogger(__name__)

EVERY_SECONDS: Final = 1.0
_AT_START: Final = Settings.model_fields.keys() - {"agents"}
"""Sections that are read at the start only."""


class ConfigReloader:
    """Watches the file. One that cannot be read, or is wrong, changes nothing, and the log says why."""

    def __init__(self, clock: Clock, file: ConfigFile, apply: Callable[[Settings], Awaitable[None]]) -> None:
        self._clock = clock
        self._path = file.path
        self._settings = file.startup_settings
        self._apply = apply
        self._seen = self._file_stamp()

    async def run(self) -> None:
        """Watch until cancelled."""
        while True:
            await self._clock.sleep(EVERY_SECONDS)
            mark = self._file_stamp()
            if mark is not None and mark != self._seen and await self._reload_file():
                self._seen = mark

    def _file_stamp(self) -> tuple[int, int, int] | None:
        """Return what changes when the file does; none while there is no file, as when an editor replaces it."""
        try:
            status = self._path.stat()
        except OSError:
            return None
        return status.st_mtime_ns, status.st_size, status.st_ino

    async def _reload_file(self) -> bool:
        """Take over what the file says; return whether that is done or in vain, and so not to be tried again."""
        try:
            settings = await asyncio.to_thread(load_settings, self._path)
            await self._apply(settings)
        except StorageUnavailable as error:
            _logger.warning("%s has changed and is taken over once the database answers: %s", self._path, error)
            return False
        except CircadiaError as error:
            _logger.warning("%s has changed and is not taken over: %s", self._path, error)
            return True
        except Exception:  # the next change may pass, and nobody else does this work
            _logger.exception("%s has changed and is not taken over", self._path)
            return True
        later = [name for name in sorted(_AT_START) if getattr(settings, name) != getattr(self._settings, name)]
        self._settings = settings
        _logger.info("%s is read again; its agents are as it says", self._path)
        if later:
            _logger.warning("%s: a change of %s holds after a restart", self._path, ", ".join(later))
        return True
