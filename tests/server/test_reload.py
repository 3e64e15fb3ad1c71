"""A configuration file that changes while the server runs."""

import asyncio
from pathlib import Path

import pytest

from circadia.errors import InvalidRequest, StorageUnavailable
from circadia.server.reload import ConfigReloader
from circadia.settings import ConfigFile, Settings, load_settings
from circadia.testing.clock import ManualClock

EVERY_SECONDS = 1.0

pytestmark = pytest.mark.spec("WAKE-16")


class ReloadedFile:
    """A file under watch, and what was applied of it."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "circadia.yaml"
        self.write(3)
        self.clock = ManualClock()
        self.applied: list[int | None] = []
        self.fails: Exception | None = None
        self.reload = ConfigReloader(
            self.clock, ConfigFile(path=self.file, startup_settings=load_settings(self.file)), self._apply
        )

    def write(self, most: int, more: str = "") -> None:
        limits = f"{{max_wakes_per_day: {most}}}"
        text = f"agents:\n  ann:\n    coordination:\n      wake_guardrails: {limits}\n{more}"
        fresh = self.file.with_suffix(".new")
        fresh.write_text(text, "utf-8")
        fresh.rename(self.file)

    async def _apply(self, settings: Settings) -> None:
        most = settings.agents["ann"].coordination.wake_guardrails.max_wakes_per_day
        if most == 13:
            raise InvalidRequest("not this one")
        if self.fails is not None:
            raise self.fails
        self.applied.append(most)

    async def look(self, watching: "asyncio.Task[None]") -> None:
        """Let the watcher look once."""
        await self.clock.wait_for_sleepers(1)
        self.clock.advance(EVERY_SECONDS)
        async with asyncio.timeout(60):
            await self.clock.wait_for_sleepers(1)
        assert not watching.done()


@pytest.fixture
def watched(tmp_path: Path) -> ReloadedFile:
    return ReloadedFile(tmp_path)


async def test_a_change_of_the_file_is_taken_over_once(watched: ReloadedFile) -> None:
    watching = asyncio.create_task(watched.reload.run())
    await watched.look(watching)
    assert watched.applied == []
    watched.write(7)
    await watched.look(watching)
    await watched.look(watching)
    assert watched.applied == [7]
    watching.cancel()


async def test_a_file_that_is_wrong_or_gone_changes_nothing_until_it_is_right(
    watched: ReloadedFile, caplog: pytest.LogCaptureFixture
) -> None:
    watching = asyncio.create_task(watched.reload.run())
    watched.file.write_text("agents: [", "utf-8")
    await watched.look(watching)
    watched.write(13)
    await watched.look(watching)
    watched.file.unlink()
    await watched.look(watching)
    assert watched.applied == []
    assert "not applied" in caplog.text
    assert "not this one" in caplog.text
    watched.write(8)
    await watched.look(watching)
    assert watched.applied == [8]
    watching.cancel()


async def test_a_change_while_the_database_is_away_is_taken_over_once_it_answers(
    watched: ReloadedFile, caplog: pytest.LogCaptureFixture
) -> None:
    watching = asyncio.create_task(watched.reload.run())
    watched.fails = StorageUnavailable("the disk is full", retry_after_seconds=1)
    watched.write(8)
    await watched.look(watching)
    assert watched.applied == []
    assert "the disk is full" in caplog.text
    watched.fails = None
    await watched.look(watching)
    await watched.look(watching)
    assert watched.applied == [8]
    watching.cancel()


@pytest.mark.parametrize(
    ("section", "text"),
    [
        ("limits", "max_holds: 5"), ("answers", "check: off"), ("sleeptime", "enabled: false"),
        ("banks", "team: {description: x}"),
    ],
)  # fmt: skip
async def test_a_change_that_needs_a_restart_is_named(
    watched: ReloadedFile, caplog: pytest.LogCaptureFixture, section: str, text: str
) -> None:
    watching = asyncio.create_task(watched.reload.run())
    watched.write(9, f"{section}: {{{text}}}\n")
    await watched.look(watching)
    assert watched.applied == [9]
    assert f"a change of {section} takes effect after a restart" in caplog.text
    watching.cancel()


async def test_no_file_ends_the_watch(watched: ReloadedFile, caplog: pytest.LogCaptureFixture) -> None:
    watching = asyncio.create_task(watched.reload.run())
    for text in ("agents: " + "[" * 20_000, "agents: " + "{a: " * 20_000, "\0", "? [a]: b", "a: 2026-02-30"):
        caplog.clear()
        watched.file.write_text(text, "utf-8")
        await watched.look(watching)
        assert "not applied" in caplog.text, text[:40]
        assert "Traceback" not in caplog.text, text[:40]
    watched.fails = RuntimeError("nobody foresaw this")
    watched.write(8)
    await watched.look(watching)
    assert watched.applied == []
    watched.fails = None
    watched.write(9)
    await watched.look(watching)
    assert watched.applied == [9]
    watching.cancel()
