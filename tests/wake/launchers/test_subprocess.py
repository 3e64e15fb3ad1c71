"""What the subprocess launcher does beyond the contract."""

import asyncio
import os
import signal
import stat
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import uvloop

from circadia.errors import ConfigError
from circadia.output_tail import Tail
from circadia.wake.launchers.base import LaunchFailed, named_environment, program_environment, pulse_environment
from tests.wake.launchers.benches import PULSE, TOKEN, WAIT_SECONDS, SubprocessBench, a_launch, processes, until

TAIL_BYTES = 4 * 2**10

ROOT = Path(__file__).parents[3]
PROGRAM = (sys.executable, "-m", "tests.wake.launchers.server_program")


@pytest.fixture
def bench(tmp_path: Path) -> SubprocessBench:
    return SubprocessBench(tmp_path)


async def nothing() -> None:
    """Take note of nothing."""


@pytest.mark.spec("WAKE-51")
async def test_a_flood_of_output_is_read_to_its_end_and_only_the_end_is_kept(bench: SubprocessBench) -> None:
    ended = await bench.launcher("flood").run(a_launch(), nothing)
    assert ended.succeeded
    assert ended.detail.endswith("the end of the flood")
    assert TAIL_BYTES / 2 < len(ended.detail) < TAIL_BYTES + 100


@pytest.mark.spec("WAKE-51")
@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_no_descriptor_is_left_of_programs_that_end_fail_flood_or_are_stopped(
    tmp_path: Path, loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    async def descriptors() -> int:
        for behaviour in ("succeed", "fail", "flood"):
            await SubprocessBench(tmp_path).launcher(behaviour).run(a_launch(), nothing)
        with pytest.raises(LaunchFailed):
            await SubprocessBench(tmp_path).with_command("no-such-program").run(a_launch(), nothing)
        stopped = SubprocessBench(tmp_path)
        task = asyncio.create_task(stopped.launcher("wait").run(a_launch(), nothing))
        await until(lambda: stopped.waiting() > 0)
        task.cancel()
        await asyncio.wait((task,))
        return len(os.listdir("/proc/self/fd"))

    async def counts() -> tuple[int, int]:
        return await descriptors(), await descriptors()

    with asyncio.Runner(loop_factory=loop) as runner:
        before, after = runner.run(counts())
    assert after <= before


@pytest.mark.spec("WAKE-51")
async def test_a_program_that_exits_at_once_and_reads_no_prompt_is_told_by_its_status(bench: SubprocessBench) -> None:
    ended = await bench.with_command("sh", "-c", "exit 7").run(a_launch(prompt="x" * 2**20), nothing)
    assert (ended.succeeded, ended.detail) == (False, "exit status 7")


@pytest.mark.spec("WAKE-51")
async def test_a_program_killed_by_a_signal_has_failed_by_its_name(bench: SubprocessBench) -> None:
    ended = await bench.with_command("sh", "-c", "kill -SEGV $$").run(a_launch(), nothing)
    assert (ended.succeeded, ended.detail) == (False, "killed by SIGSEGV")


@pytest.mark.spec("WAKE-53")
async def test_what_a_program_leaves_behind_when_it_ends_is_killed(bench: SubprocessBench) -> None:
    ended = await bench.launcher("strays").run(a_launch(), nothing)
    assert ended.succeeded
    assert processes(PULSE) == []


@pytest.mark.spec("WAKE-53")
async def test_a_polite_program_has_its_grace_period(bench: SubprocessBench) -> None:
    task = asyncio.create_task(bench.launcher("polite").run(a_launch(), nothing))
    await until(lambda: bench.waiting() > 0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert (bench.folder / "farewell").read_text() == "stopped politely\n"


@pytest.mark.spec("WAKE-51")
async def test_a_prompt_in_a_file_is_for_its_user_only_and_goes_with_the_pulse(tmp_path: Path) -> None:
    bench = SubprocessBench(tmp_path, in_file=True)
    task = asyncio.create_task(bench.launcher("wait").run(a_launch(), nothing))
    await until(lambda: bench.waiting() > 0)
    (file,) = bench.prompts.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(bench.prompts.stat().st_mode) == 0o700
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert list(bench.prompts.iterdir()) == []


@pytest.mark.spec("WAKE-51")
@pytest.mark.parametrize("command", ["no-such-program", "/", "/etc/passwd"])
async def test_a_program_that_cannot_be_started_is_named(bench: SubprocessBench, command: str) -> None:
    with pytest.raises(LaunchFailed, match=f"'{command}' cannot be started"):
        await bench.with_command(command).run(a_launch(), nothing)


@pytest.mark.spec("WAKE-51")
async def test_a_missing_folder_is_named_rather_than_the_program(bench: SubprocessBench) -> None:
    with pytest.raises(LaunchFailed, match="the folder '/no/such/folder' does not exist"):
        await bench.with_command("sh", folder="/no/such/folder").run(a_launch(), nothing)


@pytest.mark.spec("WAKE-51")
async def test_an_environment_that_no_program_can_get_is_refused(bench: SubprocessBench) -> None:
    odd = a_launch(environment={"A": "b\0c"})
    with pytest.raises(LaunchFailed, match="'A'"):
        await bench.launcher("succeed").run(odd, nothing)


@pytest.mark.spec("WAKE-50", "WAKE-53")
@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
@pytest.mark.parametrize("mode", ["stdin", "file"])
async def test_what_a_killed_server_left_behind_is_cleared(tmp_path: Path, loop: str, mode: str) -> None:
    bench = SubprocessBench(tmp_path, in_file=mode == "file")
    server = await asyncio.create_subprocess_exec(*PROGRAM, PULSE, loop, mode, str(tmp_path), cwd=ROOT)
    await until(lambda: bench.waiting() > 0)
    server.send_signal(signal.SIGKILL)
    await asyncio.wait_for(server.wait(), WAIT_SECONDS)
    await until(lambda: len(processes(PULSE)) > 4)
    await bench.launcher("wait").clear(PULSE, below_epoch=3)
    assert processes(PULSE) != [], "its epoch is 3, which is not below 3"
    if mode == "file":
        assert [file.name for file in bench.prompts.iterdir()] == [f"{PULSE}.3.txt"]
    await bench.launcher("wait").clear(PULSE, below_epoch=4)
    assert processes(PULSE) == []
    assert not bench.prompts.exists() or list(bench.prompts.iterdir()) == []


@pytest.mark.spec("WAKE-52")
@pytest.mark.parametrize("size", [1, 2, 7, 4096, 100_000])
def test_a_secret_is_taken_out_wherever_the_chunks_cut_it(size: int) -> None:
    text = f"{TOKEN}{TOKEN[:20]} {TOKEN}".encode() * 300
    tail = Tail([TOKEN])
    for start in range(0, len(text), size):
        tail.feed(text[start : start + size])
    assert TOKEN not in tail.text()
    assert tail.text().endswith(f"[redacted]{TOKEN[:20]} [redacted]")
    assert len(tail.text()) > TAIL_BYTES / 2


@pytest.mark.spec("WAKE-51")
def test_output_that_is_no_text_becomes_text_that_a_database_takes() -> None:
    tail = Tail([])
    tail.feed(b"a\0b\xff" + "🦉".encode() * 2000)
    assert "\0" not in tail.text()
    assert set(tail.text()) == {"🦉"}


@pytest.mark.spec("WAKE-52")
def test_what_a_pulse_gives_its_agent_stands_before_what_settings_give_it() -> None:
    launch = a_launch(environment={"CIRCADIA_URL": "http://gateway"})
    basis = {"CIRCADIA_URL": "http://elsewhere", "CIRCADIA_PULSE": "another", "CIRCADIA_EPOCH": "9", "X": "1"}
    pulse = {"CIRCADIA_URL": "http://gateway", "CIRCADIA_PULSE": PULSE, "CIRCADIA_EPOCH": "1"}
    assert pulse_environment(basis, launch) == {**pulse, "X": "1"}


@pytest.mark.spec("WAKE-52")
def test_settings_name_what_a_program_gets_and_cannot_name_a_secret_of_the_servers() -> None:
    own = {"PATH": "/bin", "LANG": "", "MY_KEY": "k", "OPENAI_API_KEY": "the provider's"}
    named = named_environment("agents.a.launcher", own, {"X": "1"}, ["MY_KEY"], withheld={"OPENAI_API_KEY"})
    assert named == {"X": "1", "MY_KEY": "k"}
    assert program_environment(own, named) == {"PATH": "/bin", "HOME": "/", "LANG": "C.UTF-8", "X": "1", "MY_KEY": "k"}
    with pytest.raises(ConfigError, match="'OPENAI_API_KEY' is a secret"):
        named_environment("agents.a.launcher", own, {}, ["OPENAI_API_KEY"], withheld={"OPENAI_API_KEY"})
    with pytest.raises(ConfigError, match="'ABSENT' is not set"):
        named_environment("agents.a.launcher", own, {}, ["ABSENT"])
