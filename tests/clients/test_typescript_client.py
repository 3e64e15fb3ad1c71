"""The TypeScript client: generated from today's OpenAPI document, and driven against a real server."""

import asyncio
import json
import os
import signal
import tarfile
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from circadia.api.app import openapi_document
from circadia.clock import SystemClock
from circadia.testing.upstream import MockUpstream
from tests.clients.node_program import MODULES, node
from tests.fixtures.server_process import ADMIN_TOKEN, CircadiaProcess
from tests.house.tree import ROOT, blocks

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.spec("SHIP-06")]

CLIENT = ROOT / "clients" / "typescript"
GENERATED = CLIENT / "src" / "generated"
GENERATOR = CLIENT / "node_modules" / "@hey-api" / "openapi-ts" / "bin" / "run.js"
TSC = CLIENT / "node_modules" / "typescript" / "bin" / "tsc"
ESBUILD = CLIENT / "node_modules" / "esbuild" / "bin" / "esbuild"
NODE_20 = MODULES / "node-20" / "bin" / "node"
README_PROGRAM = CLIENT / "test" / "live" / "readme.ts"
"""The blocks of the README, one after the other; among the tests, so that its types are checked with theirs."""
REPLY = "the right answer"
SECONDS = 60.0


async def run(*words: object, cwd: Path = CLIENT, env: Mapping[str, str] | None = None) -> str:
    """Run a program with Node 22 first on the path, and return what it printed; any other status than 0 fails."""
    path = f"{Path(node()).parent}{os.pathsep}{os.environ['PATH']}"
    process = await asyncio.create_subprocess_exec(
        *map(str, words),
        cwd=cwd,
        env={**os.environ, "PATH": path, "NO_COLOR": "1", **(env or {})},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        async with asyncio.timeout(SECONDS):
            output, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
    assert process.returncode == 0, output.decode()
    return output.decode()


def of_operator(server: CircadiaProcess) -> dict[str, str]:
    return {"CIRCADIA_URL": server.url, "CIRCADIA_ADMIN_TOKEN": ADMIN_TOKEN}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def program_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build and pack the client; return the folder of a program that has installed the package."""
    assert GENERATOR.is_file(), f"{CLIENT}/node_modules is missing; `make client` makes it"
    folder = tmp_path_factory.mktemp("program")
    await run("npm", "pack", "--silent", "--pack-destination", folder)
    [archive] = folder.glob("*.tgz")
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    installed = folder / "node_modules" / "@circadia" / "client"
    installed.parent.mkdir(parents=True)
    (folder / "package").rename(installed)
    (folder / "smoke.js").write_bytes((CLIENT / "test" / "packed" / "smoke.js").read_bytes())
    (folder / "package.json").write_text('{"type": "module"}', "utf-8")
    program = [block.body for block in blocks(CLIENT / "README.md") if block.language == "ts"]
    README_PROGRAM.write_text("".join(program), "utf-8")
    return folder


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def upstream() -> AsyncGenerator[MockUpstream]:
    async with MockUpstream(reply=REPLY) as upstream:
        yield upstream


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(
    tmp_path_factory: pytest.TempPathFactory, upstream: MockUpstream, program_folder: Path
) -> AsyncGenerator[CircadiaProcess]:
    config = {
        "upstreams": {"openai": {"base_url": upstream.base_url}},
        "defaults": {"hold_grace_seconds": 0.1, "hold_silent_seconds": 0.7, "keep_alive_seconds": 0.2},
    }
    async with CircadiaProcess(tmp_path_factory.mktemp("server"), config) as server:
        yield server


def files(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): path.read_text("utf-8") for path in folder.rglob("*") if path.is_file()
    }


async def test_the_built_code_is_what_the_openapi_document_generates(tmp_path: Path) -> None:
    document = tmp_path / "openapi.json"
    document.write_text(json.dumps(openapi_document()), "utf-8")
    options = ("-f", CLIENT / "openapi-ts.config.js", "-i", document, "-o", tmp_path / "generated", "--silent")
    await run(node(), GENERATOR, *options)
    generated, built = files(tmp_path / "generated"), files(GENERATED)
    stale = sorted(name for name in {*generated, *built} if generated.get(name) != built.get(name))
    assert not stale, "run `make client`"


async def test_its_types_and_their_tests_pass_strict_checks(program_folder: Path) -> None:
    await run(node(), TSC, "--project", CLIENT / "test")
    types = program_folder / "node_modules" / "@circadia" / "client" / "dist" / "index.d.ts"
    options = ("--strict", "--module", "nodenext", "--target", "es2022", "--lib", "es2022,dom", "--noEmit")
    await run(node(), TSC, *options, types, cwd=program_folder)


@pytest.mark.usefixtures("program_folder")
async def test_it_retries_resumes_and_waits_as_its_own_tests_say() -> None:
    await run(node(), "--test", *sorted((CLIENT / "test").glob("*.test.ts")))


async def test_typed_calls_reach_a_real_server(server: CircadiaProcess) -> None:
    await run(node(), "--test", CLIENT / "test" / "live" / "api.test.ts", env=of_operator(server))


@asynccontextmanager
async def follower(server: CircadiaProcess) -> AsyncGenerator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        *(node(), CLIENT / "test" / "live" / "follow.ts"),
        env={**os.environ, "NODE_NO_WARNINGS": "1", **of_operator(server)},
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def read_numbers(follower: asyncio.subprocess.Process, last: int) -> list[int]:
    """Return the numbers that a follower prints, up to this one."""
    assert follower.stdout is not None
    numbers: list[int] = []
    async with asyncio.timeout(SECONDS):
        while not numbers or numbers[-1] < last:
            numbers.append(int(await follower.stdout.readline()))
    return numbers


@pytest.mark.usefixtures("program_folder")
async def test_events_are_followed_over_a_kill_and_a_stop_of_the_server_without_a_gap_or_a_double(
    tmp_path: Path,
) -> None:
    async with CircadiaProcess(tmp_path) as server, follower(server) as following:
        numbers: list[int] = []

        async def add_events(life: int) -> int:
            for index in range(5):
                await server.call("POST", "/sessions", {"name": f"s{life}-{index}"})
            return (await server.call("GET", "/events?limit=10000"))["events"][-1]["number"]

        for life, kill in enumerate((True, False)):
            numbers += await read_numbers(following, await add_events(life))
            await add_events(life + 10)  # the server is gone before all of these are read, or just after
            await server.restart(kill=kill)
        last = await add_events(2)
        numbers += await read_numbers(following, last)
        assert numbers == [event["number"] for event in (await server.call("GET", "/events?limit=10000"))["events"]]
        following.send_signal(signal.SIGTERM)
        rest, _ = await following.communicate()
        assert (rest, following.returncode) == (b"ended\n", 0)


async def add_sleeper(server: CircadiaProcess, session: str, **policy: Any) -> str:
    agent = {"name": "worker", "sleep_events": ["agent_started"], "wake_events": ["mentioned"], **policy}
    return (await server.create_session(session, [agent]))["worker"]


def model_call(server: CircadiaProcess, token: str, kind: str) -> asyncio.Task[str]:
    env = {"CIRCADIA_URL": server.url, "AGENT_TOKEN": token, "NODE_NO_WARNINGS": "1"}
    return asyncio.create_task(run(node(), CLIENT / "test" / "live" / "model-call.ts", kind, env=env))


async def usage_key(server: CircadiaProcess, session: str, group: str) -> str:
    """Return the end user, or the conversation, of the session's only call, once the ledger is written."""
    async with asyncio.timeout(SECONDS):
        while not (usage := (await server.call("GET", f"/usage?group_by={group}&session={session}"))["usage"]):
            await SystemClock().sleep(0.05)
    [row] = usage
    return row["key"]


@pytest.mark.parametrize("kind", ["generate", "stream"])
async def test_the_ai_sdk_waits_for_a_sleeping_agent_past_its_time_out_and_names_the_end_user(
    server: CircadiaProcess, upstream: MockUpstream, kind: str
) -> None:
    token = await add_sleeper(server, kind)
    upstream.requests.clear()
    call = model_call(server, token, kind)
    await server.held_by(kind, "worker", seconds=1.0, opened=True)
    assert upstream.requests == []
    await server.put_sleeping(kind, "worker", False)
    assert await call == f"{REPLY}\n"
    assert len(upstream.requests) == 1
    assert await usage_key(server, kind, "end_user") == "Zoë 東京"
    assert await usage_key(server, kind, "conversation") == "c-1"


async def test_the_ai_sdk_repeats_a_call_that_the_gateway_refuses_after_its_hold(
    server: CircadiaProcess, upstream: MockUpstream
) -> None:
    token = await add_sleeper(server, "refreshed", on_wake="refresh")  # 503 with Retry-After: 1 after a silent hold
    upstream.requests.clear()
    call = model_call(server, token, "stream")
    await server.held_by("refreshed", "worker")
    await server.put_sleeping("refreshed", "worker", False)
    assert await call == f"{REPLY}\n"
    assert len(upstream.requests) == 1
    held = await server.call("GET", "/events?session=refreshed&type=admitted")
    assert [event["data"]["what"] for event in held["events"]] == ["POST /v1/responses"]


SMOKE = {
    "session": "default",
    "error": "not_found",
    "event": "session_created",
    "user": "Zoë".encode().decode("latin-1"),  # what `fetch` sends as UTF-8
}


async def test_the_packed_files_work_in_node_20_and_need_no_other_package(
    program_folder: Path, server: CircadiaProcess
) -> None:
    script = "import { smoke } from './smoke.js'; console.log(JSON.stringify(await smoke(...process.argv.slice(1))))"
    program = NODE_20 if NODE_20.is_file() else node()
    output = await run(program, "--input-type=module", "-e", script, server.url, ADMIN_TOKEN, cwd=program_folder)
    assert json.loads(output) == SMOKE
    installed = program_folder / "node_modules" / "@circadia" / "client"
    manifest = json.loads((installed / "package.json").read_text("utf-8"))
    assert "dependencies" not in manifest
    assert manifest["version"] == version("circadia").replace(".dev", "-dev.")
    assert (installed / "LICENSE").is_file()


async def test_the_packed_files_bundle_for_a_page_that_has_nothing_of_node(
    program_folder: Path, server: CircadiaProcess
) -> None:
    bundle = program_folder / "bundle.js"
    options = ("--bundle", "--platform=browser", "--format=iife", "--global-name=bundle", f"--outfile={bundle}")
    await run(ESBUILD, "smoke.js", *options, "--log-level=warning", cwd=program_folder)
    output = await run(node(), CLIENT / "test" / "packed" / "page.js", bundle, server.url, ADMIN_TOKEN)
    assert json.loads(output) == SMOKE


async def test_the_programs_of_its_readme_run_as_they_stand(server: CircadiaProcess) -> None:
    output = await run(node(), README_PROGRAM, env={**of_operator(server), "NODE_NO_WARNINGS": "1"})
    lines = output.splitlines()
    assert "did you mean 'writer'" in lines[0]
    assert lines[1] == REPLY
    assert lines[-1].endswith(" sleep_stop")
