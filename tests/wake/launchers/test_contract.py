"""What every launcher holds to, whatever it starts."""

import asyncio
import os
from collections.abc import Awaitable, Callable

import pytest

from circadia.ids import PulseId
from circadia.wake.launchers.base import Launcher, LaunchFailed, LaunchResult
from tests.wake.launchers.benches import PULSE, TOKEN, Bench, a_launch, until

MARK = {"CIRCADIA_PULSE", "CIRCADIA_EPOCH"}
MEGABYTE = 2**20


class Started:
    """Counts the calls of `started`."""

    def __init__(self) -> None:
        self.calls = 0

    async def __call__(self) -> None:
        await asyncio.sleep(0)
        self.calls += 1


async def ran(launcher: Launcher, *, prompt: str = "Go.") -> tuple[LaunchResult, int]:
    started = Started()
    ended = await launcher.run(a_launch(prompt=prompt), started)
    return ended, started.calls


async def in_the_background(
    bench: Bench, launcher: Launcher, *, epoch: int = 1, started: Callable[[], Awaitable[None]] | None = None
) -> asyncio.Task[LaunchResult]:
    task = asyncio.create_task(launcher.run(a_launch(epoch=epoch), started or Started()))
    await until(lambda: task.done() or bench.waiting() > 0)
    assert not task.done(), task
    return task


@pytest.mark.spec("WAKE-51")
async def test_an_agent_is_started_once_and_its_success_is_told(bench: Bench) -> None:
    ended, starts = await ran(bench.launcher("succeed"))
    assert ended.succeeded, ended
    assert "all is well" in ended.detail or ended.detail == ""
    assert starts == 1
    assert len(bench.received()) == 1
    assert bench.alive(PULSE) == 0


@pytest.mark.spec("WAKE-51", "WAKE-52")
async def test_a_failure_is_told_without_the_token(bench: Bench) -> None:
    ended, starts = await ran(bench.launcher("fail"))
    assert not ended.succeeded
    assert "went wrong with [redacted], so there" in ended.detail
    assert starts == 1
    assert bench.alive(PULSE) == 0


@pytest.mark.spec("WAKE-51")
async def test_a_launcher_that_finds_nothing_to_start_says_so_and_starts_nothing(bench: Bench) -> None:
    launcher = bench.missing()
    if launcher is None:
        return  # a function was found when the server started, or the server did not start
    started = Started()
    with pytest.raises(LaunchFailed) as told:
        await launcher.run(a_launch(), started)
    assert str(told.value)
    assert TOKEN not in str(told.value)
    assert started.calls == 0
    assert bench.alive(PULSE) == 0


@pytest.mark.spec("WAKE-51")
@pytest.mark.parametrize(
    "prompt",
    ["x" * MEGABYTE, "ä€🦉\n\n\t'\"\\ $HOME `id` %s {x}\r\n" * 100, "", "no newline at the end"],
    ids=["1 MB", "odd characters", "empty", "no newline"],
)
async def test_the_prompt_arrives_whole(bench: Bench, prompt: str) -> None:
    prompt = prompt[: bench.longest_prompt]
    await ran(bench.launcher("succeed"), prompt=prompt)
    assert [each.prompt for each in bench.received()] == [prompt]


@pytest.mark.spec("WAKE-51")
@pytest.mark.parametrize("prompt", ["a\0b", "half a character \ud83e"], ids=["NUL", "surrogate"])
async def test_a_prompt_that_cannot_arrive_whole_is_refused(bench: Bench, prompt: str) -> None:
    launcher = bench.launcher("wait")
    with pytest.raises(LaunchFailed):
        await launcher.run(a_launch(prompt=prompt), Started())
    assert bench.alive(PULSE) == 0


@pytest.mark.spec("WAKE-52")
async def test_the_environment_is_what_is_promised_and_nothing_of_the_servers(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "the key of the provider")
    monkeypatch.setenv("DATABASE_URL", "postgresql://secret")
    await ran(bench.launcher("succeed"))
    environment = bench.received()[0].environment
    own = {name: value for name, value in environment.items() if name not in MARK}
    assert own == {**bench.basis(), **a_launch().environment}
    assert not {"the key of the provider", "postgresql://secret"} & set(environment.values())


@pytest.mark.spec("WAKE-53")
async def test_a_cancelled_agent_is_ended_with_all_that_it_started(bench: Bench) -> None:
    task = await in_the_background(bench, bench.launcher("stubborn"))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await until(lambda: bench.alive(PULSE) == 0)


@pytest.mark.spec("WAKE-53")
async def test_a_second_cancellation_leaves_no_orphan_either(bench: Bench) -> None:
    task = await in_the_background(bench, bench.launcher("stubborn"))
    while not task.done():
        task.cancel()
        await asyncio.sleep(0.01)
    assert task.cancelled()
    await until(lambda: bench.alive(PULSE) == 0)


@pytest.mark.spec("WAKE-53")
@pytest.mark.parametrize("steps", [0, 1, 2, 4, 8, 16, 64])
async def test_a_cancellation_at_any_step_of_the_start_leaves_nothing(bench: Bench, steps: int) -> None:
    task = asyncio.create_task(bench.launcher("wait").run(a_launch(), Started()))
    for _ in range(steps):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await until(lambda: bench.alive(PULSE) == 0)


@pytest.mark.spec("WAKE-53")
async def test_an_agent_whose_start_cannot_be_recorded_is_ended(bench: Bench) -> None:
    async def refused() -> None:
        raise ConnectionError("the database is away")

    with pytest.raises(ConnectionError):
        await bench.launcher("wait" if bench.tells_start else "succeed").run(a_launch(), refused)
    await until(lambda: bench.alive(PULSE) == 0)


@pytest.mark.spec("WAKE-50", "WAKE-53")
async def test_clear_ends_earlier_epochs_and_leaves_the_present_one(bench: Bench) -> None:
    launcher = bench.launcher("wait")
    old = await in_the_background(bench, launcher, epoch=1)
    before = bench.alive(PULSE)
    present = asyncio.create_task(launcher.run(a_launch(epoch=2), Started()))
    await until(lambda: bench.alive(PULSE) > before)
    await launcher.clear(PULSE, below_epoch=2)
    async with asyncio.timeout(60):
        ended = await old
    assert not ended.succeeded
    await until(lambda: 0 < bench.alive(PULSE) <= before)
    assert not present.done()
    present.cancel()
    await asyncio.gather(present, return_exceptions=True)
    await until(lambda: bench.alive(PULSE) == 0)


@pytest.mark.spec("WAKE-50")
async def test_clear_of_a_pulse_that_left_nothing_does_nothing(bench: Bench) -> None:
    launcher = bench.launcher("wait")
    task = await in_the_background(bench, launcher)
    await launcher.clear(PulseId("another_pulse"), below_epoch=9)
    assert not task.done()
    assert bench.alive(PULSE) > 0
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@pytest.mark.spec("WAKE-53")
async def test_many_runs_leave_no_file_descriptor_open(bench: Bench) -> None:
    launcher = bench.launcher("succeed")
    await launcher.run(a_launch(), Started())
    before = len(os.listdir("/proc/self/fd"))
    for number in range(5):
        await bench.launcher("succeed").run(a_launch(f"{PULSE}_{number}"), Started())
    await until(lambda: len(os.listdir("/proc/self/fd")) <= before + 1)
