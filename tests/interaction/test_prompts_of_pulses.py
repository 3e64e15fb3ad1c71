"""What memory keeps of a run that the server has started: the prompt was written by nobody, the messages in it were."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.interaction.live import Live, live
from tests.interaction.test_wakes import away, until
from tests.wake.launchers.webhook_bench import serving

pytestmark = pytest.mark.spec("SLEEP-63")
ENDED = ("succeeded", "failed", "timed_out")
TASK = "Water the plants on the roof.\n\n- Take the green can.\n- Ok?\n\nThen write down which of them have grown."
ANSWER = "The tomatoes have grown by two inches since Monday."
ANN = "The harbour office is closed on Sunday.\nThanks, Ann"
PERSON = "Dock 14 is free until the end of August."
OWN = "Those who run this program may read along whatever is written here below."
FORMS: dict[str, Callable[[str], str]] = {
    "as it came": str.strip,
    "in JSON": lambda prompt: json.dumps({"task": prompt, "attempt": 1}),
    "after words of the program": lambda prompt: f"{OWN}\n\n{OWN[::-1]}\n{prompt}",
    "quoted": lambda prompt: "> " + prompt.replace("\n", "\n> "),
}


@dataclass
class Run:
    """A server with an agent whose runs are elsewhere."""

    server: Live
    ann: str

    async def bob(self, **body: object) -> None:
        """Run the agent because of a message of ann's, and wait for the end."""
        status, told = await self.server.rest(
            "POST", "/wakes", {"to": "bob", "reason": "blocker", **body}, token=self.ann
        )
        assert status == 201, told
        assert (await until(self.server, told["pulse"], *ENDED))["status"] == "succeeded"

    async def episodes(self) -> list[dict[str, Any]]:
        await self.server.server.exchanges.flush()
        return (await self.server.rest("GET", "/banks/memory/episodes"))[1]["episodes"]

    async def kept(self) -> list[tuple[str, str, str]]:
        return [(each["speaker"], each["trust"], each["text"]) for each in await self.episodes()]


@asynccontextmanager
async def running(
    folder: Path, form: Callable[[str], str] = str.strip, headers: Mapping[str, str] | None = None
) -> AsyncGenerator[Run]:
    """Run a server, and elsewhere a program that gives the model each prompt in a form of its own."""
    gateway: asyncio.Future[Live] = asyncio.get_running_loop().create_future()

    async def handle(request: web.Request) -> web.Response:
        said = json.loads(await request.read())
        if said["type"] != "pulse.start":
            return web.Response(status=204)
        server = await gateway
        body = {"model": "mock-1", "messages": [{"role": "user", "content": form(said["prompt"])}]}
        server.upstream.next(text=ANSWER)
        async with server.call(said["token"], body=body, headers=headers) as answer:
            status = "succeeded" if answer.status == 200 else "failed"
            await answer.read()
        return web.json_response({"status": status})

    coordination = {"launcher": "away", "heartbeat_minutes": None, "wake_guardrails": {"cooldown_seconds": 0}}
    async with serving(handle) as url, live(folder, **away(url)) as server:
        gateway.set_result(server)
        ann = await server.agent("ann")
        await server.agent("bob", bank="memory")
        await server.sleeping(True, "bob")
        status, answer = await server.rest("PATCH", "/agents/bob/coordination", coordination)
        assert status == 200, answer
        yield Run(server, ann)


@pytest.mark.parametrize("form", FORMS)
async def test_of_the_prompt_of_a_woken_agent_only_the_message_is_kept_as_its_senders(
    tmp_path: Path, form: str
) -> None:
    async with running(tmp_path, FORMS[form]) as run:
        await run.bob(message=ANN)
        own = [("bob", "agent", f"{OWN}\n\n{OWN[::-1]}")] if "program" in form else []
        assert await run.kept() == [("ann", "agent", ANN), *own, ("bob", "agent", ANSWER)]


async def test_a_message_of_a_person_is_kept_as_a_persons_and_once_whatever_runs_it_is_in(tmp_path: Path) -> None:
    async with running(tmp_path) as run:
        status, told = await run.server.rest("POST", "/messages", {"to": "bob", "content": PERSON})
        assert status == 201, told
        await run.bob(message=ANN)
        await run.bob(message="Once more, and hurry up with the harbour please.")
        assert [each for each in await run.kept() if each[1] == "person"] == [("operator", "person", PERSON)]


@pytest.mark.parametrize("headers", [{}, {"x-circadia-trust": "person"}], ids=["not told", "told to be a person's"])
async def test_the_prompt_of_a_routine_is_not_kept_and_does_not_come_back_in_the_next_one(
    tmp_path: Path, headers: dict[str, str]
) -> None:
    async with running(tmp_path, headers=headers) as run:
        for number in (1, 2):
            soon = datetime.now(UTC) + timedelta(seconds=0.5)
            routine = {"name": "plants", "instructions": TASK, "at": [soon.isoformat()]}
            status, told = await run.server.rest("PUT", "/agents/bob/schedule", {"routines": [routine]})
            assert status == 200, told
            pulses: list[dict[str, Any]] = []
            async with asyncio.timeout(60):
                while len(pulses) < number or pulses[0]["status"] not in ENDED:
                    await asyncio.sleep(0.02)
                    pulses = (await run.server.rest("GET", "/agents/bob/pulses"))[1]["pulses"]
        assert set(await run.kept()) == {("bob", "agent", ANSWER)}
        last = run.server.upstream.requests[-1].json()["messages"][-1]["content"]
        assert last.count("Water the plants") == 1


async def test_a_person_who_repeats_a_line_of_a_prompt_says_it_all_the_same(tmp_path: Path) -> None:
    async with running(tmp_path) as run:
        await run.bob(message=ANN)
        said = "Please call snooze for one that you leave for later."
        body = {"model": "mock-1", "messages": [{"role": "user", "content": said}]}
        token = await run.server.agent("cem", bank="memory")
        async with run.server.call(token, body=body) as answer:
            assert answer.status == 200
            await answer.read()
        assert ("user", "person", said) in await run.kept()
