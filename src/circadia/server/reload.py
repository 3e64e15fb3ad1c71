"""Reload of the configuration file when it changes: its agents are updated at once (WAKE-16)."""

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


class ConfigReloader:
    """Watches the configuration file; a file that is unreadable or wrong changes nothing and is logged."""

    def __init__(self, clock: Clock, file: ConfigFile, apply: Callable[[Settings], Awaitable[None]]) -> None:
        self._clock = clock
        self._path = file.path
        self._settings = file.startup_settings
        self._apply = apply
        self._seen = self._file_stamp()

    async def run(self) -> None:
        while True:
            await self._clock.sleep(EVERY_SECONDS)
            stamp = self._file_stamp()
            if stamp is not None and stamp != self._seen and await self._reload_file():
                self._seen = stamp

    def _file_stamp(self) -> tuple[int, int, int] | None:
        """Return a value that changes with the file, or None while there is none, as when an editor replaces it."""
        try:
            status = self._path.stat()
        except OSError:
            return None
        return status.st_mtime_ns, status.st_size, status.st_ino

    async def _reload_file(self) -> bool:
        """Apply the file; return False if that must be tried again."""
        try:
            settings = await asyncio.to_thread(load_settings, self._path)
            await self._apply(settings)
        except StorageUnavailable as error:
            _logger.warning("%s has changed and will be applied once the database answers: %s", self._path, error)
            return False
        except CircadiaError as error:
            _logger.warning("%s has changed but was not applied: %s", self._path, error)
            return True
        except Exception:  # the next change may pass, and nobody else does this work
            _logger.exception("%s has changed but was not applied", self._path)
            return True
        restart_sections = [
            name for name in sorted(_AT_START) if getattr(settings, name) != getattr(self._settings, name)
        ]
        self._settings = settings
        _logger.info("%s was read again; its agents are up to date", self._path)
        if restart_sections:
            _logger.warning("%s: a change of %s takes effect after a restart", self._path, ", ".join(restart_sections))
        return True
