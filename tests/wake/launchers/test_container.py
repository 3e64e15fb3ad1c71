"""What the container launcher does beyond the contract; against a real engine."""

import asyncio
import re
import signal
import sys
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from circadia.wake.launchers.base import LaunchFailed, LaunchResult
from circadia.wake.launchers.container_engine import open_engine
from tests.wake.launchers.benches import PULSE, WAIT_SECONDS, a_launch, processes, until
from tests.wake.launchers.container_bench import WITH_CONTAINERS, ContainerBench, Podman

__test__ = WITH_CONTAINERS
ROOT = Path(__file__).parents[3]
PROGRAM = (sys.executable, "-m", "tests.wake.launchers.container_server_program")
RELAY = ROOT / "examples/container/relay.py"
PYTHON = f"{sys.base_prefix}/bin/python3"
PYTHON_MOUNTS = tuple(
    f"{place}:{place}" for place in dict.fromkeys((sys.base_prefix, "/usr", "/lib", "/lib64")) if Path(place).exists()
)


@pytest.fixture
def bench(engine: Podman, tmp_path: Path) -> ContainerBench:
    return ContainerBench(engine, tmp_path)


async def nothing() -> None:
    """Take note of nothing."""


async def said(bench: ContainerBench, script: str) -> LaunchResult:
    return await bench.with_command("sh", "-c", script).run(a_launch(), nothing)


async def left(bench: ContainerBench) -> list[str]:
    async with open_engine(bench.engine.address) as engine:
        return [name for name, _ in await engine.find_by_label(f"circadia.pulse={PULSE}")]


@pytest.mark.spec("WAKE-51")
async def test_a_container_has_a_read_only_root_no_capability_and_bounded_means(bench: ContainerBench) -> None:
    script = (
        "id; touch /x; touch /bin/x; echo fits > /tmp/y && cat /tmp/y; cat /proc/self/status;"
        "cat /sys/fs/cgroup/memory/memory.limit_in_bytes /sys/fs/cgroup/memory.max;"
        "cat /sys/fs/cgroup/pids/pids.max /sys/fs/cgroup/pids.max; cat /proc/net/dev"
    )
    output = (await said(bench, script)).detail
    assert re.search(r"uid=65532\S* gid=65532\b", output)  # Podman adds the name
    assert output.count("Read-only file system") == 2
    assert "fits" in output
    assert "CapBnd:\t0000000000000000" in output
    assert "CapEff:\t0000000000000000" in output
    assert "NoNewPrivs:\t1" in output
    assert f"\n{64 * 2**20}\n" in output
    assert "\n50\n" in output
    assert "lo:" in output
    assert "eth0" not in output


@pytest.mark.spec("WAKE-51")
async def test_a_container_that_takes_too_much_memory_is_told_so(bench: ContainerBench) -> None:
    ended = await said(bench, "x=xxxxxxxxxxxxxxxx; while :; do x=$x$x; done")
    assert not ended.succeeded
    assert ended.detail.startswith("exit status 137, ")
    assert "out of its 64 MiB of memory" in ended.detail


@pytest.mark.spec("WAKE-51")
async def test_a_flood_of_output_is_kept_to_its_limit(bench: ContainerBench) -> None:
    ended = await bench.launcher("flood").run(a_launch(), nothing)
    assert ended.succeeded
    assert ended.detail.endswith("the end of the flood")
    assert len(ended.detail) < 5000


@pytest.mark.spec("WAKE-51")
async def test_a_last_line_without_its_end_is_told_too(bench: ContainerBench) -> None:
    assert (await said(bench, "echo one; echo -n two")).detail.endswith("\none\ntwo")
    assert (await said(bench, "echo -n three >&2")).detail.endswith("\nthree")


@pytest.mark.spec("WAKE-51")
async def test_a_first_process_of_the_engines_own_passes_the_polite_stop_on(bench: ContainerBench) -> None:
    launcher = bench.with_command("sh", "/agent.sh", "polite", "/notes", grace_seconds=WAIT_SECONDS, init=True)
    task = asyncio.create_task(launcher.run(a_launch(), nothing))
    await until(lambda: bench.waiting() > 0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert (bench.folder / "farewell").read_text() == "stopped politely\n"


@pytest.mark.spec("WAKE-51")
async def test_a_program_that_the_image_lacks_has_not_run_and_leaves_no_container(bench: ContainerBench) -> None:
    with pytest.raises(LaunchFailed, match="no-such-program"):
        await bench.with_command("no-such-program").run(a_launch(), nothing)
    assert await left(bench) == []


@pytest.mark.spec("WAKE-51")
async def test_a_missing_image_is_pulled_only_where_settings_say_so(bench: ContainerBench) -> None:
    missing = "localhost/no-such-image:1"
    with pytest.raises(LaunchFailed, match="set `pull: missing`"):
        await bench.with_command("sh", image=missing).run(a_launch(), nothing)
    with pytest.raises(LaunchFailed, match="no-such-image") as told:
        await bench.with_command("sh", image=missing, pull="missing").run(a_launch(), nothing)
    assert "set `pull" not in str(told.value)


@pytest.mark.spec("WAKE-51")
async def test_an_engine_that_is_not_there_is_named(bench: ContainerBench) -> None:
    launcher = bench.with_command("sh", engine="unix:///no/such/engine.sock")
    with pytest.raises(LaunchFailed, match=r"unix:///no/such/engine\.sock"):
        await launcher.run(a_launch(), nothing)
    with pytest.raises(LaunchFailed, match=r"unix:///no/such/engine\.sock"):
        await launcher.clear(PULSE, below_epoch=2)


@pytest.mark.spec("WAKE-51")
async def test_a_prompt_may_come_as_a_variable_if_it_is_short(bench: ContainerBench) -> None:
    launcher = bench.with_command("sh", "-c", 'echo "it says: $CIRCADIA_PROMPT"', prompt="env")
    ended = await launcher.run(a_launch(prompt="Ünï $HOME\nGo."), nothing)
    assert "it says: Ünï $HOME\nGo." in ended.detail
    with pytest.raises(LaunchFailed, match="use stdin"):
        await launcher.run(a_launch(prompt="x" * 2**20), nothing)


@pytest.mark.spec("WAKE-53")
async def test_a_polite_container_has_its_grace_period(bench: ContainerBench) -> None:
    task = asyncio.create_task(bench.launcher("polite").run(a_launch(), nothing))
    await until(lambda: bench.waiting() > 0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert (bench.folder / "farewell").read_text() == "stopped politely\n"
    assert await left(bench) == []


@pytest.mark.spec("WAKE-50", "WAKE-53")
async def test_what_a_killed_server_left_behind_is_cleared(bench: ContainerBench) -> None:
    server = await asyncio.create_subprocess_exec(*PROGRAM, PULSE, bench.engine.address, str(bench.folder), cwd=ROOT)
    await until(lambda: bench.waiting() > 0)
    server.send_signal(signal.SIGKILL)
    await asyncio.wait_for(server.wait(), WAIT_SECONDS)
    await until(lambda: len(processes(PULSE)) > 4)
    socket_folder = Path(tempfile.mkdtemp(prefix=f"circadia-{PULSE[-12:]}-3-"))
    await bench.launcher("wait").clear(PULSE, below_epoch=3)
    assert len(await left(bench)) == 1
    assert socket_folder.exists()
    await bench.launcher("wait").clear(PULSE, below_epoch=4)
    assert await left(bench) == []
    await until(lambda: processes(PULSE) == [])
    assert list(Path(tempfile.gettempdir()).glob(f"circadia-{PULSE[-12:]}-*")) == []


@asynccontextmanager
async def a_gateway() -> AsyncGenerator[int]:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked = await reader.readuntil(b"\r\n\r\n")
        line = asked.split(b"\r\n")[0]
        writer.write(b"HTTP/1.0 200 OK\r\n\r\nthe gateway heard: " + line)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


@pytest.mark.spec("WAKE-51")
async def test_the_gateway_is_all_that_a_container_without_a_network_reaches(engine: Podman, tmp_path: Path) -> None:
    script = (
        "import os, socket\n"
        "s = socket.socket(socket.AF_UNIX); s.connect(os.environ['CIRCADIA_GATEWAY_SOCKET'])\n"
        "s.sendall(b'GET /healthz HTTP/1.0\\r\\n\\r\\n'); print(s.makefile('rb').read().decode())\n"
        "try:\n    socket.create_connection(('127.0.0.1', int(os.environ['PORT'])), 2)\n"
        "except OSError as error: print('by TCP:', error)\n"
    )
    async with a_gateway() as port:
        bench = ContainerBench(engine, tmp_path, gateway_port=port)
        launcher = bench.with_command(
            PYTHON, "-c", script, mounts=PYTHON_MOUNTS, environment={"PORT": str(port)}, memory_mebibytes=128
        )
        ended = await launcher.run(a_launch(), nothing)
    assert "the gateway heard: GET /healthz" in ended.detail
    assert "by TCP: [Errno 111] Connection refused" in ended.detail


@pytest.mark.spec("WAKE-51")
async def test_with_the_relay_of_the_examples_the_base_urls_work_as_they_are(engine: Podman, tmp_path: Path) -> None:
    script = (
        "import os, sys, urllib.request as r; prompt = sys.stdin.read()\n"
        "print(r.urlopen(os.environ['OPENAI_BASE_URL'] + '/models').read().decode(), 'for', prompt)\n"
    )
    async with a_gateway() as port:
        bench = ContainerBench(engine, tmp_path, gateway_port=port)
        mounts = (*PYTHON_MOUNTS, f"{RELAY}:/relay.py")
        launcher = bench.with_command(PYTHON, "/relay.py", PYTHON, "-c", script, mounts=mounts, memory_mebibytes=128)
        url = f"http://127.0.0.1:{port}/llm/openai/v1"
        ended = await launcher.run(a_launch(prompt="me", environment={"OPENAI_BASE_URL": url}), nothing)
    assert "the gateway heard: GET /llm/openai/v1/models HTTP/1.1 for me" in ended.detail
    assert ended.succeeded
