"""What the callable launcher does beyond the contract, and what settings say of launchers."""

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from circadia.errors import ConfigError
from circadia.settings.launchers import LauncherSettings
from circadia.wake.launchers.base import Launch, LaunchResult
from circadia.wake.launchers.callable import CallableLauncher, import_agent_function
from tests.wake.launchers.benches import a_launch

pytestmark = pytest.mark.spec("WAKE-51")

SETTINGS: TypeAdapter[Any] = TypeAdapter(LauncherSettings)


async def nothing() -> None:
    """Take note of nothing."""


async def test_a_function_is_found_by_its_name_and_its_answer_is_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "agents_of_mine.py").write_text("async def work(launch):\n    return f'{launch.agent} is done'\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    launcher = CallableLauncher(import_agent_function("agents_of_mine:work"), grace_seconds=1.0)
    assert await launcher.run(a_launch(), nothing) == LaunchResult(succeeded=True, detail="default:worker is done")
    sys.modules.pop("agents_of_mine")


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("no_such_module_here:work", "cannot be imported"),
        ("asyncio:no_such_function", "is missing"),
        ("asyncio:run", "is not an async function"),
    ],
)
def test_a_function_that_is_not_there_stops_the_server_before_it_starts(name: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        import_agent_function(name)


async def test_an_exception_is_told_with_its_type() -> None:
    async def work(launch: Launch) -> object:
        raise ValueError(f"bad {launch.token}")

    ended = await CallableLauncher(work, grace_seconds=1.0).run(a_launch(), nothing)
    assert ended == LaunchResult(succeeded=False, detail="ValueError: bad [redacted]")


async def test_a_function_may_tell_its_own_end_and_may_tidy_up_when_it_is_stopped() -> None:
    tidied = asyncio.Event()
    running = asyncio.Event()

    async def work(launch: Launch) -> object:
        try:
            running.set()
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            tidied.set()
        return None

    async def give_up(launch: Launch) -> object:
        return LaunchResult(succeeded=False, detail="nothing to do")

    task = asyncio.create_task(CallableLauncher(work, grace_seconds=5.0).run(a_launch(), nothing))
    await running.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert tidied.is_set()
    assert (await CallableLauncher(give_up, grace_seconds=1.0).run(a_launch(), nothing)).detail == "nothing to do"


@pytest.mark.parametrize(
    "raw",
    [
        {"kind": "resident"},
        {"kind": "subprocess", "command": ["python", "agent.py"], "env_from": ["LANG"], "prompt": "file"},
        {"kind": "container", "image": "agent:1", "mounts": ["/a:/b", "/c:/d:rw"], "engine": "tcp://127.0.0.1:2375"},
        {"kind": "webhook", "url": "https://example.com/x", "secret_env": "S", "allowed_networks": ["10.0.0.0/8"]},
        {"kind": "callable", "function": "pkg.mod:fn"},
    ],
    ids=lambda raw: raw["kind"],
)
def test_each_kind_has_its_settings(raw: dict[str, Any]) -> None:
    assert SETTINGS.validate_python(raw).kind == raw["kind"]


@pytest.mark.parametrize(
    "raw",
    [
        {"kind": "teleport"},
        {"kind": "subprocess", "command": []},
        {"kind": "subprocess", "command": ["a"], "grace_seconds": -1},
        {"kind": "container", "image": "a", "engine": "http://x"},
        {"kind": "container", "image": "a", "mounts": ["relative:/x"]},
        {"kind": "webhook", "url": "ftp://x", "secret_env": "S"},
        {"kind": "webhook", "url": "https://user:pass@x", "secret_env": "S"},
        {"kind": "webhook", "url": "https://x", "secret_env": "S", "allowed_networks": ["10.0.0.1/8"]},
        {"kind": "callable", "function": "no_colon"},
        {"kind": "callable", "function": "a:b", "colour": "blue"},
    ],
    ids=str,
)
def test_settings_that_make_no_sense_are_refused(raw: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        SETTINGS.validate_python(raw)
