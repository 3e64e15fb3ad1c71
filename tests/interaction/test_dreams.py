"""Dreams over memory folders and banks through a whole server: REST, MCP, its own routine, restarts."""

import asyncio
import json
import logging
import re
from collections.abc import AsyncGenerator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from threading import Event
from typing import Any

import httpx2
import pytest
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import TextContent

from circadia.clock import SystemClock
from circadia.errors import ConfigError
from circadia.records.member import Role
from circadia.sleeptime.markdown.dream_state import load_state, save_state
from circadia.sleeptime.markdown.folder_lock import lock_memory_folder
from circadia.testing.upstream import MockUpstream
from tests.cli.test_dream import MOVED, SAID, answer
from tests.interaction.live import KEY, Live, live
from tests.interaction.test_cluster import cluster
from tests.mcp_server.stand import structured
from tests.sleeptime.markdown.dream_stand import DreamStand

pytestmark = pytest.mark.spec("DREAM-31")
MODEL = {"model": {"upstream": "openai", "name": "gpt-5-nano"}, "when": "manual"}
APP = {"type": "folder", "name": "app"}


@asynccontextmanager
async def dreaming(stand: DreamStand, **folder: object) -> AsyncGenerator[Live]:
    """Run a server with the stand's folder as `app`."""
    app = {"folder": str(stand.root), "transcripts": str(stand.transcripts), "watch": False, **folder}
    async with MockUpstream(key=KEY, reply=answer) as provider:
        data = stand.root.parent / "server"
        async with live(data, provider=provider, sleeptime=MODEL, dreams={"app": app}) as at:
            yield at


@asynccontextmanager
async def connected(at: Live, token: str) -> AsyncGenerator[Client]:
    """Connect an official MCP client."""
    headers = {"authorization": f"Bearer {token}"}
    async with httpx2.AsyncClient(headers=headers, timeout=60, trust_env=False, verify=False) as http:
        async with Client(streamable_http_client(f"{at.url}/mcp", http_client=http), mode="auto") as client:
            yield client


async def ended(at: Live, dream: str) -> dict[str, Any]:
    """Return a dream when it has ended."""
    async with asyncio.timeout(60):
        while True:
            shown = (await at.rest("GET", f"/dreams/{dream}"))[1]
            if shown["ended_at"] is not None:
                return shown
            await asyncio.sleep(0.02)


async def begun(at: Live, **more: object) -> str:
    """Begin a dream, over the stand's folder by default."""
    status, made = await at.rest("POST", "/dreams", {"inputs": [APP], **more})
    assert (status, made["status"], made["type"]) == (202, "pending", "dream"), made
    return made["id"]


@pytest.fixture
def stand(tmp_path: Path) -> DreamStand:
    return DreamStand(tmp_path)


async def test_a_dream_over_a_folder_is_asked_for_looked_at_accepted_and_undone(stand: DreamStand) -> None:
    stand.session("s1", SAID)
    before = stand.contents()
    async with dreaming(stand) as at:
        folder = (await at.rest("GET", "/memory-folders/app"))[1]
        assert (folder["sessions"], folder["entries"], folder["model"]) == (1, 2, "gpt-5-nano")
        dream = await begun(at)
        shown = await ended(at, dream)
        assert (shown["status"], shown["error"], shown["mode"]) == ("completed", None, "propose")
        assert shown["inputs"] == [APP]
        assert Path(shown["outputs"][0]["name"]).is_dir()
        assert shown["usage"]["calls"] == 2
        assert shown["report"]["replaced"] == 1
        assert stand.contents() == before
        assert f"+- {MOVED}" in (await at.rest("GET", f"/dreams/{dream}/diff"))[1]["diff"]
        assert (await at.rest("GET", "/memory-folders/app"))[1]["waiting"] == shown["entry"]
        status, accepted = await at.rest("POST", f"/dreams/{dream}/accept")
        assert (status, accepted["report"]) == (200, shown["report"])
        assert MOVED in stand.read("database.md")
        status, told = await at.rest("POST", f"/dreams/{dream}/accept")
        assert (status, "waits" in told["detail"]) == (409, True)
        undone = (await at.rest("POST", f"/dreams/{dream}/undo"))[1]
        assert (undone["files"]["database.md"], undone["left_out"]) == ("published", [])
        assert stand.contents() == before
        listed = (await at.rest("GET", "/dreams?type=folder&name=app"))[1]["dreams"]
        assert [each["id"] for each in listed] == [dream]
        told = [event["data"]["status"] for event in await at.events("dream")]
        assert told == ["pending", "running", "completed"]


async def test_a_dream_is_accepted_file_by_file_under_its_id(stand: DreamStand) -> None:
    stand.session("s1", SAID)
    stand.write("habits.md", "# Habits\n\n- Ann writes commit messages in the imperative.\n")
    async with dreaming(stand) as at:
        dream = (await ended(at, await begun(at)))["id"]
        assert (await at.rest("POST", f"/dreams/{dream}/accept", {"files": ["database.md"]}))[0] == 200
        assert (MOVED in stand.read("database.md"), "habits.md" in stand.read("MEMORY.md")) == (True, False)
        assert (await at.rest("POST", f"/dreams/{dream}/accept"))[0] == 200
        assert "habits.md" in stand.read("MEMORY.md")


@pytest.mark.spec("UI-19")
async def test_a_dream_says_who_decided_on_it_and_waits_no_more_when_somebody_decided_without_the_server(
    stand: DreamStand,
) -> None:
    stand.session("s1", SAID)
    stand.write("habits.md", "# Habits\n\n- Ann writes commit messages in the imperative.\n")
    async with dreaming(stand) as at:
        dream = (await ended(at, await begun(at)))["id"]
        assert (await at.rest("GET", "/for-you"))[1]["dreams"] == 1
        await at.rest("POST", f"/dreams/{dream}/accept", {"files": ["database.md"]})
        shown = (await at.rest("GET", f"/dreams/{dream}"))[1]
        assert (shown["waits"], [(each["act"], each["by"], each["files"]) for each in shown["reviews"]]) == (
            True, [("accepted", "operator", ["database.md"])],
        )  # fmt: skip
        (reviewed,) = await at.events("reviewed")
        assert reviewed["data"] == {
            "dream": dream, "name": "app", "act": "accepted", "files": ["database.md"], "by": "operator"
        }  # fmt: skip
    await stand.accept()  # as the command line does
    async with dreaming(stand) as at, asyncio.timeout(60):
        while (await at.rest("GET", "/dreams?waits=true"))[1]["dreams"]:
            await asyncio.sleep(0.05)
        assert (await at.rest("GET", "/for-you"))[1]["dreams"] == 0
        assert "habits.md" in stand.read("MEMORY.md")


async def test_a_dry_run_shows_and_a_refusal_drops(stand: DreamStand) -> None:
    stand.session("s1", SAID)
    before = stand.contents()
    async with dreaming(stand) as at:
        shown = await ended(at, await begun(at, mode="dry-run"))
        assert MOVED in (await at.rest("GET", f"/dreams/{shown['id']}/diff"))[1]["diff"]
        assert (await at.rest("GET", "/memory-folders/app"))[1]["waiting"] is None
        dream = (await ended(at, await begun(at)))["id"]
        assert (await at.rest("POST", f"/dreams/{dream}/refuse", {"files": ["database.md"]}))[1]["refused"] >= 1
        assert stand.contents() == before
        assert (await at.rest("GET", "/memory-folders/app"))[1]["waiting"] is None


async def test_bad_requests_are_told_what_to_do(stand: DreamStand, tmp_path: Path) -> None:
    async with dreaming(stand) as at:
        asked: list[tuple[dict[str, object], int, str]] = [
            ({"inputs": []}, 422, "inputs"),
            ({"inputs": [{"type": "folder", "name": "ap"}]}, 404, "'app'"),
            ({"inputs": [{"type": "bank", "name": "none"}]}, 404, "none"),
            ({"inputs": [APP], "mode": "quick"}, 422, "propose"),
            ({"inputs": [APP], "instructions": "a\0"}, 422, "NUL"),
            ({"inputs": [APP], "model": "x"}, 422, "unknown key"),
        ]
        for body, status, word in asked:
            found, told = await at.rest("POST", "/dreams", body)
            assert (found, word in json.dumps(told)) == (status, True), told
        ann = await at.agent()
        for method, path in (("POST", "/dreams"), ("GET", "/dreams"), ("GET", "/memory-folders/app")):
            assert (await at.rest(method, path, {"inputs": [APP]}, token=ann))[0] == 403
        assert (await at.rest("GET", "/dreams/drm_none"))[0] == 404
        stand.root.rename(tmp_path / "away")
        status, told = await at.rest("GET", "/memory-folders/app")
        assert (status, "no folder on this server" in told["detail"]) == (422, True)
        assert "no folder on this server" in (await ended(at, await begun(at)))["error"]["message"]


async def test_a_dream_that_is_cancelled_ends_and_the_next_one_reads_the_same(stand: DreamStand) -> None:
    stand.session("s1", SAID)
    async with dreaming(stand) as at:
        at.upstream.gate.clear()
        dream = await begun(at)
        await at.upstream.wait_for_requests(1)
        assert (await at.rest("POST", "/dreams", {"inputs": [APP]}))[0] == 409
        assert (await at.rest("POST", f"/dreams/{dream}/cancel"))[1]["status"] == "canceled"
        assert (await at.rest("POST", f"/dreams/{dream}/cancel"))[0] == 409
        at.upstream.gate.set()
        shown = await ended(at, await begun(at))
        assert (shown["status"], shown["report"]["replaced"]) == ("completed", 1)


async def test_a_dream_that_is_cut_off_by_the_end_of_its_server_goes_on_at_the_next_start(stand: DreamStand) -> None:
    stand.session("s1", SAID)
    async with dreaming(stand) as at:
        at.upstream.gate.clear()
        dream = await begun(at)
        await at.upstream.wait_for_requests(1)
    async with dreaming(stand) as at:
        shown = await ended(at, dream)
        assert (shown["status"], shown["report"]["replaced"]) == ("completed", 1)


@pytest.mark.spec("DREAM-01")
@pytest.mark.setting("dreams.folder", "dreams.transcripts", "dreams.watch", "dreams.mode")
async def test_the_server_dreams_when_a_dream_is_due_and_writes_if_it_may(stand: DreamStand) -> None:
    yesterday = SystemClock().now() - timedelta(hours=25)
    save_state(stand.root, load_state(stand.root), enabled_at=yesterday, dreamed_at=yesterday, is_accepted=True)
    for number in range(5):
        stand.session(f"s{number}", SAID)
    async with dreaming(stand, watch=True, mode="auto") as at:
        async with asyncio.timeout(60):
            while not (dreams := (await at.rest("GET", "/dreams?status=completed"))[1]["dreams"]):
                await asyncio.sleep(0.02)
        assert (dreams[0]["by"], dreams[0]["mode"]) == ("circadia", "auto")
        assert MOVED in stand.read("database.md")


@pytest.mark.setting("dreams.project")
async def test_sessions_of_one_project_are_read(stand: DreamStand) -> None:
    stand.session("s1", SAID)
    stand.session("s2", "The mail server of the project Crane is called Otto.", cwd="/srv/crane")
    async with dreaming(stand) as at:
        shown = await ended(at, await begun(at))
        assert (shown["status"], "several projects" in shown["error"]["message"]) == ("failed", True)
    async with dreaming(stand, project=str(stand.project)) as at:
        assert (await ended(at, await begun(at)))["report"]["sessions"] == 1


@pytest.mark.spec("DREAM-41")
@pytest.mark.setting("dreams.programs", "dreams.repository")
async def test_sessions_of_programs_and_a_whole_repository_are_read_where_the_settings_say_so(
    stand: DreamStand,
) -> None:
    stand.session("s1", SAID, entrypoint="sdk-cli")
    (stand.root / ".git").mkdir()
    (stand.root / "MEMORY.md").unlink()
    (stand.root / ".circadia" / "dream.json").unlink()
    (stand.root / ".circadia" / ".gitignore").unlink()
    (stand.root / ".circadia").rmdir()
    async with dreaming(stand) as at:
        shown = await ended(at, await begun(at))
        assert (shown["status"], "--repository" in shown["error"]["message"]) == ("failed", True)
    async with dreaming(stand, repository=True) as at:
        assert (await ended(at, await begun(at)))["report"]["sessions"] == 0
    async with dreaming(stand, repository=True, programs=True) as at:
        assert (await ended(at, await begun(at)))["report"]["sessions"] == 1


@pytest.mark.setting("dreams.agents")
async def test_a_coding_agent_asks_for_a_dream_and_looks_at_it_by_mcp(stand: DreamStand) -> None:
    stand.session("s1", SAID)
    before = stand.contents()
    async with dreaming(stand, agents=["default:ann"]) as at:
        ann, bob = await at.agent(), await at.agent("bob")

        async def listed(token: str) -> set[str]:
            async with connected(at, token) as client:
                return {tool.name for tool in (await client.list_tools()).tools}

        tools = {"dream_status", "dream_run", "dream_diff", "dream_undo"}
        assert tools <= await listed(ann)
        assert not tools & await listed(bob)
        async with connected(at, ann) as client:
            status = structured(await client.call_tool("dream_status", {}))
            assert (status["folder"], status["entries"], status["sessions"]) == ("app", 2, 1)
            await ended(at, await begun(at, mode="dry-run"))
            assert MOVED in structured(await client.call_tool("dream_diff", {}))["diff"]
            dream = structured(await client.call_tool("dream_run", {"instructions": "ports"}))["dream"]
            await ended(at, dream)
            assert MOVED in structured(await client.call_tool("dream_diff", {}))["diff"]
            await at.rest("POST", f"/dreams/{dream}/accept")
            undone = structured(await client.call_tool("dream_undo", {"dream": dream}))
            assert undone["files"]["database.md"] == "published"
            assert stand.contents() == before
            prompt = await client.get_prompt("dream", {"folder": "app"})
            said = prompt.messages[0].content
            assert isinstance(said, TextContent)
            assert re.fullmatch(r"<circadia-dream>\n.*drm_.*\n</circadia-dream>", said.text, re.S)


async def test_a_dream_that_another_process_still_works_at_is_left_to_it(
    stand: DreamStand, caplog: pytest.LogCaptureFixture
) -> None:
    """To a server, the job of another one looks like one that was cut off."""
    stand.session("s1", SAID)
    caplog.set_level(logging.INFO)
    async with dreaming(stand) as at:
        at.upstream.gate.clear()
        dream = await begun(at)
        await at.upstream.wait_for_requests(1)
    with lock_memory_folder(stand.root, SystemClock()):
        async with dreaming(stand) as at, asyncio.timeout(60):
            while f"dream {dream}: process " not in caplog.text:
                await asyncio.sleep(0.02)
            assert (await at.rest("GET", f"/dreams/{dream}"))[1]["status"] == "running"
    async with dreaming(stand) as at:
        assert (await ended(at, dream))["status"] == "completed"


async def test_a_cut_off_dream_whose_changes_somebody_else_has_proposed_says_so(tmp_path: Path) -> None:
    stand = DreamStand(tmp_path, {"staging database": MOVED})
    stand.session("s1", SAID)
    async with dreaming(stand) as at:
        at.upstream.gate.clear()
        dream = await begun(at)
        await at.upstream.wait_for_requests(1)
    assert (await stand.dream()).replaced == 1  # by the command
    async with dreaming(stand) as at:
        shown = await ended(at, dream)
        assert (shown["status"], "wait for you" in shown["error"]["message"]) == ("failed", True)
        assert (await at.rest("POST", f"/dreams/{dream}/accept"))[0] == 200  # by REST, too
        assert MOVED in stand.read("database.md")


@pytest.mark.spec("DREAM-02")
async def test_of_two_servers_that_have_the_folder_one_dreams(stand: DreamStand, postgres_url: str) -> None:
    stand.session("s1", SAID)
    app = {"folder": str(stand.root), "transcripts": str(stand.transcripts), "watch": False}
    async with MockUpstream(key=KEY, reply=answer) as provider:
        running = cluster(
            stand.root.parent, postgres_url, Role.ALL, Role.ALL, provider=provider, sleeptime=MODEL, dreams={"app": app}
        )
        async with running as (here, there):
            for at in (here, there):
                shown = await ended(at, await begun(at, mode="dry-run"))
                assert (shown["status"], shown["error"], shown["report"]["replaced"]) == ("completed", None, 1)


async def test_several_folders_dream_at_once_while_the_server_answers(tmp_path: Path) -> None:
    folders: dict[str, dict[str, str]] = {}
    for name in ("a", "b", "c", "d"):
        (tmp_path / name).mkdir()
        stand = DreamStand(tmp_path / name)
        stand.session("s1", SAID)
        folders[name] = {"folder": str(stand.root), "transcripts": str(stand.transcripts)}
    loop, free = asyncio.get_running_loop(), Event()
    loop.set_default_executor(ThreadPoolExecutor(1))  # for short work of others
    async with MockUpstream(key=KEY, reply=answer) as provider:
        async with live(tmp_path / "server", provider=provider, sleeptime=MODEL, dreams=folders) as at:
            at.upstream.gate.clear()
            asked = [await begun(at, inputs=[{"type": "folder", "name": name}]) for name in folders]
            await at.upstream.wait_for_requests(len(folders))
            async with asyncio.timeout(30):
                await loop.run_in_executor(None, str)  # it is free
                busy = loop.run_in_executor(None, free.wait, 30)
                assert (await at.rest("GET", "/memory-folders/a"))[1]["sessions"] == 1
            free.set()
            await busy
            at.upstream.gate.set()
            assert [(await ended(at, dream))["status"] for dream in asked] == ["completed"] * len(folders)


async def test_two_names_for_one_folder_are_refused(stand: DreamStand) -> None:
    with pytest.raises(ConfigError, match=r"dreams\.a and dreams\.b are over the same folder"):
        async with live(stand.root.parent / "server", dreams={name: {"folder": str(stand.root)} for name in "ab"}):
            pass
