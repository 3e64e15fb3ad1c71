"""A whole server whose agents are Jobs of a cluster, and what becomes of a pulse when the cluster's API has faults."""

import asyncio
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from circadia.ids import PulseId
from tests.fixtures.kubernetes_api import Fault, KubernetesCluster, kubernetes_cluster
from tests.fixtures.leap import Leap
from tests.fixtures.server_process import CircadiaProcess
from tests.interaction.live import Live, live
from tests.interaction.test_wakes import until
from tests.wake.launchers.benches import processes
from tests.wake.launchers.benches import until as until_true

SEVEN = "exit status 7; its last output:\ncame to nothing"
ENDED = ("succeeded", "failed", "timed_out", "cancelled", "interrupted")


@dataclass
class Scene:
    cluster: KubernetesCluster
    server: Live
    folder: Path

    def starts(self, pulse: str) -> int:
        """Return how often the pulse's agent has started."""
        notes = self.folder / "starts"
        return notes.read_text().split().count(pulse) if notes.exists() else 0

    def let_end(self, pulse: str) -> None:
        (self.folder / pulse).touch()

    def created(self, pulse: str) -> list[str]:
        """Return the kinds of what was ever created for the pulse."""
        return [each["kind"] for each in self.cluster.created if each["metadata"]["labels"]["circadia/pulse"] == pulse]

    async def begin(self) -> str:
        """Begin a pulse of bob's and return its id."""
        status, answer = await self.server.rest("POST", "/agents/bob/pulses", {})
        assert status in (200, 201, 202), answer
        return answer["pulse"]

    async def begin_and_run(self) -> str:
        pulse = await self.begin()
        await until(self.server, pulse, "running")
        await until_true(lambda: self.starts(pulse) == 1)
        return pulse

    async def end(self, pulse: str) -> dict[str, Any]:
        return await until(self.server, pulse, *ENDED)

    async def nothing_is_left(self, pulse: str) -> None:
        await until_true(lambda: not processes(PulseId(pulse)) and not self.cluster.jobs and not self.cluster.secrets)


def waiting_agent(folder: Path) -> list[str]:
    """Return the command of an agent that notes its pulse, and fails with status 7 once it is let go."""
    wait = f"until [ -e {folder}/$CIRCADIA_PULSE ]; do sleep 0.02; done"
    return ["sh", "-c", f"echo $CIRCADIA_PULSE >> {folder}/starts; {wait}; echo came to nothing; exit 7"]


@asynccontextmanager
async def running(folder: Path, command: list[str] | None = None, **launcher: Any) -> AsyncGenerator[Scene]:
    """Run a cluster, and a server whose agent `bob` is a Job there."""
    coordination = {"launcher": "pods", "heartbeat_minutes": None, "wake_guardrails": {"cooldown_seconds": 0}}
    agents = {"bob": {"coordination": coordination}}
    async with kubernetes_cluster(folder) as cluster:
        pods = cluster.settings(command=command or waiting_agent(folder), grace_seconds=0, **launcher)
        async with live(folder / "data", agents=agents, launchers={"pods": pods}) as server:
            yield Scene(cluster, server, folder)


@pytest.mark.spec("SHIP-05", "WAKE-51", "WAKE-52")
async def test_a_pulse_is_one_job_that_calls_its_model_and_leaves_nothing_behind(tmp_path: Path) -> None:
    script = (
        "import os, urllib.request as r; prompt = open(os.environ['CIRCADIA_PROMPT_FILE']).read()\n"
        'body = b\'{"model": "gpt-4o-mini", "messages": [{"role": "user", "content": "hi"}]}\'\n'
        "headers = {'content-type': 'application/json', 'authorization': 'Bearer ' + os.environ['OPENAI_API_KEY']}\n"
        "r.urlopen(r.Request(os.environ['OPENAI_BASE_URL'] + '/chat/completions', body, headers)).read()\n"
        "raise SystemExit(0 if prompt.startswith('You are bob') else 'no prompt')\n"
    )
    async with running(tmp_path, [sys.executable, "-c", script]) as at:
        pulse = await at.begin()
        ended = await at.end(pulse)
        assert (ended["status"], ended["launcher"]) == ("succeeded", "pods"), ended
        assert len(at.server.upstream.requests) == 1
        await at.nothing_is_left(pulse)
        assert at.created(pulse) == ["Job", "Secret"]
        job = at.cluster.created[0]
    assert job["metadata"]["name"] == f"circadia-{pulse.replace('_', '-')}-1"
    assert job["metadata"]["labels"]["circadia/pulse"] == pulse
    assert job["spec"]["template"]["metadata"]["labels"] == job["metadata"]["labels"]


async def cut_watch(at: Scene) -> None:
    at.cluster.cut_watches()


async def forget_events(at: Scene) -> None:
    at.cluster.compact()
    at.cluster.cut_watches()


async def refuse_watches(at: Scene) -> None:
    more = [Fault("GET", "watch=1", 500), Fault("GET", "watch=1", 410)]
    at.cluster.faults += [Fault("GET", "watch=1", 429, {"Retry-After": "1"}), *more]
    at.cluster.cut_watches()


async def go_away(at: Scene) -> None:
    await at.cluster.stop()


async def replace_token(at: Scene) -> None:
    at.cluster.rotate_token()
    at.cluster.cut_watches()


@pytest.mark.spec("SHIP-05")
async def test_an_end_while_the_watch_is_cut_refused_or_away_is_learnt_when_it_is_back(tmp_path: Path) -> None:
    async with running(tmp_path) as at:
        for cause in (cut_watch, forget_events, refuse_watches, go_away, replace_token):
            pulse = await at.begin_and_run()
            await cause(at)
            at.let_end(pulse)
            await until_true(lambda pulse=pulse: not processes(PulseId(pulse)))
            if cause is go_away:
                await at.cluster.start()
            ended = await at.end(pulse)
            assert (ended["status"], ended["detail"]) == ("failed", SEVEN), cause
            await at.nothing_is_left(pulse)
            assert at.starts(pulse) == 1
            assert at.created(pulse) == ["Job", "Secret"]
            assert not at.cluster.faults


@pytest.mark.spec("SHIP-05")
async def test_a_creation_that_fails_for_the_moment_is_repeated_and_makes_one_job(tmp_path: Path) -> None:
    faults: dict[str, dict[str, Any]] = {
        "a lost answer": {"executed": True}, "a lost request": {}, "a time-out": {"status": 504, "executed": True},
        "a full server": {"status": 429, "headers": {"Retry-After": "1"}}, "a token that expires now": {"status": 401},
    }  # fmt: skip
    async with running(tmp_path) as at:
        for name, fault in faults.items():
            at.cluster.faults += [Fault("POST", part, **fault) for part in ("/jobs", "/secrets")]
            at.cluster.requests.clear()
            pulse = await at.begin()
            at.let_end(pulse)
            assert (await at.end(pulse))["detail"] == SEVEN, name
            await at.nothing_is_left(pulse)
            assert (at.starts(pulse), at.created(pulse)) == (1, ["Job", "Secret"])
            posts = [path.rpartition("/")[2] for method, path in at.cluster.requests if method == "POST"]
            assert posts == ["jobs", "jobs", "secrets", "secrets"], name


@pytest.mark.spec("SHIP-05")
async def test_a_creation_that_is_refused_fails_the_pulse_at_once_and_runs_nothing(tmp_path: Path) -> None:
    refusals = [
        ("/jobs", 403, "grant it with a Role"), ("/secrets", 403, "grant it with a Role"),
        ("/pods", 403, "grant it with a Role"), ("/jobs", 422, "a fault with 422"),
        ("/secrets", 409, "a fault with 409"),
    ]  # fmt: skip
    async with running(tmp_path) as at:
        for part, status, reason in refusals:
            at.cluster.faults.append(Fault("GET" if part == "/pods" else "POST", part, status))
            pulse = await at.begin()
            ended = await at.end(pulse)
            assert (ended["status"], ended["started_at"]) == ("failed", None)
            assert "could not be started" in ended["detail"]
            assert reason in ended["detail"]
            await at.nothing_is_left(pulse)
            assert at.starts(pulse) == 0


@pytest.mark.spec("SHIP-05")
async def test_an_image_that_cannot_be_pulled_fails_the_pulse_long_before_its_time_limit(tmp_path: Path) -> None:
    async with running(tmp_path, image="registry.example/no-such-image:1") as at:
        pulse = await at.begin()
        ended = await at.end(pulse)
        assert (ended["status"], ended["started_at"]) == ("failed", None)
        assert "ImagePullBackOff: registry.example/no-such-image:1: not found" in ended["detail"]
        await at.nothing_is_left(pulse)


@pytest.mark.spec("SHIP-05", "WAKE-53")
async def test_a_cancelled_pulse_ends_its_agent_and_deletes_job_and_secret(tmp_path: Path) -> None:
    async with running(tmp_path) as at:
        pulse = await at.begin_and_run()
        assert (await at.server.rest("POST", f"/pulses/{pulse}/cancel", {}))[0] in (200, 202)
        assert (await at.end(pulse))["status"] == "cancelled"
        await at.nothing_is_left(pulse)
        assert at.starts(pulse) == 1


@pytest.mark.spec("SHIP-05", "WAKE-53")
async def test_a_pulse_over_its_time_limit_has_timed_out_and_the_job_has_the_same_limit(
    tmp_path: Path, leap: Leap
) -> None:
    async with running(tmp_path) as at:
        await at.server.rest("PATCH", "/agents/bob/coordination", {"pulse_timeout_seconds": 90})
        pulse = await at.begin_and_run()
        leap(90)
        assert (await at.end(pulse))["status"] == "timed_out"
        await at.nothing_is_left(pulse)
        assert at.cluster.created[0]["spec"]["activeDeadlineSeconds"] == 90


@pytest.mark.spec("SHIP-05")
async def test_the_end_says_that_the_memory_did_not_suffice(tmp_path: Path) -> None:
    async with running(tmp_path, ["sh", "-c", "kill -9 $$"], memory_mebibytes=96) as at:
        at.cluster.out_of_memory = True
        ended = await at.end(await at.begin())
        assert ended["status"] == "failed"
        assert ended["detail"] == "exit status 137, out of its 96 MiB of memory (OOMKilled)"


@asynccontextmanager
async def died_server(folder: Path) -> AsyncGenerator[tuple[KubernetesCluster, CircadiaProcess, str]]:
    """Yield a server that was killed while a pulse's agent ran, and was started again, and the pulse."""
    async with kubernetes_cluster(folder) as cluster:
        pods = cluster.settings(command=waiting_agent(folder), grace_seconds=0)
        agents = {"bob": {"coordination": {"launcher": "pods", "heartbeat_minutes": None}}}
        async with CircadiaProcess(folder, {"launchers": {"pods": pods}, "agents": agents}) as server:
            pulse = (await server.call("POST", "/agents/bob/pulses", {}))["pulse"]
            await until_true((folder / "starts").exists)
            await server.restart(kill=True)
            yield cluster, server, pulse


@pytest.mark.spec("SHIP-05", "WAKE-23")
async def test_a_job_of_a_server_that_died_is_found_by_its_label_and_ended(tmp_path: Path) -> None:
    async with died_server(tmp_path) as (cluster, _, pulse):
        await until_true(lambda: not processes(PulseId(pulse)) and not cluster.jobs and not cluster.secrets)
        selector = f"labelSelector=circadia/pulse%3D{pulse}"
        assert [path for _, path in cluster.requests if "/jobs?" in path and selector in path]


@pytest.mark.slow
@pytest.mark.spec("SHIP-05", "WAKE-23", "WAKE-50")
async def test_a_pulse_whose_server_died_runs_again_as_another_job_and_never_as_two_at_once(tmp_path: Path) -> None:
    async with died_server(tmp_path) as (cluster, server, pulse):
        await until_true(lambda: len((tmp_path / "starts").read_text().split()) == 2)
        assert len(cluster.jobs) == 1
        assert len({each.environ()["CIRCADIA_EPOCH"] for each in processes(PulseId(pulse))}) == 1
        (tmp_path / pulse).touch()
        async with asyncio.timeout(60):
            while (ended := await server.call("GET", f"/pulses/{pulse}"))["status"] not in ENDED:
                await asyncio.sleep(0.05)
        assert (ended["detail"], ended["attempt"]) == (SEVEN, 2)
        names = [each["metadata"]["name"] for each in cluster.created if each["kind"] == "Job"]
        assert len(names) == len(set(names)) == 2
        await until_true(lambda: not cluster.jobs and not cluster.secrets)
