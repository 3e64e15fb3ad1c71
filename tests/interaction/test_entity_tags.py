"""Settings that two people change at the same time: nobody overwrites what they have not read."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Any

import pytest

from circadia.errors import PreconditionFailed
from tests.api.service import Answer
from tests.interaction.live import ADMIN, Live, live

pytestmark = pytest.mark.spec("UI-07")

AT_ONCE = 8
ROUTINE = {"name": "r", "cron": "0 9 * * *"}
CHANGES: dict[str, tuple[str, str, list[dict[str, Any]]]] = {
    "coordination": (
        "PATCH", "/agents/ann/coordination", [{"wake_guardrails.max_wakes_per_day": n} for n in range(20, 20 + AT_ONCE)]
    ),
    "schedule": ("PUT", "/agents/ann/schedule", [{"routines": [{**ROUTINE, "name": f"r{n}"}]} for n in range(AT_ONCE)]),
    "agent": ("PATCH", "/sessions/default/agents/ann", [{"description": f"writes {n}"} for n in range(AT_ONCE)]),
    "bank": ("PATCH", "/banks/notes", [{"description": f"of {n}"} for n in range(AT_ONCE)]),
}  # fmt: skip
"""How each kind of settings is changed: method, path, and bodies that all differ."""


@pytest.fixture(params=["SQLite", "PostgreSQL"])
async def servers(request: pytest.FixtureRequest, tmp_path: Path, postgres_url: str) -> AsyncGenerator[Sequence[Live]]:
    """A server with a file, or two on one PostgreSQL; with an agent and a bank."""
    if request.param == "SQLite":
        async with live(tmp_path) as alone:
            await make_agent_and_bank(alone)
            yield (alone,)
        return
    shared: dict[str, Any] = {"server": {"database_url": postgres_url}}
    async with live(tmp_path / "here", **shared) as here, live(tmp_path / "there", **shared) as there:
        await make_agent_and_bank(here)
        yield here, there


async def make_agent_and_bank(at: Live) -> None:
    await at.agent("ann")
    assert (await at.rest("POST", "/banks", {"name": "notes"}))[0] == 201


async def send(
    at: Live, method: str, path: str, body: object = None, if_match: str | None = None, token: str = ADMIN
) -> Answer:
    headers = {"authorization": f"Bearer {token}", **({} if if_match is None else {"If-Match": if_match})}
    async with at.http.request(method, f"{at.url}/api/v1{path}", json=body, headers=headers) as answer:
        return Answer(status=answer.status, headers=answer.headers, body=await answer.json(content_type=None))


@pytest.mark.parametrize("kind", CHANGES)
async def test_of_changes_at_once_with_the_same_tag_exactly_one_is_made(servers: Sequence[Live], kind: str) -> None:
    method, path, bodies = CHANGES[kind]
    tag = (await send(servers[0], "GET", path)).headers["ETag"]
    answers = await asyncio.gather(
        *(send(servers[n % len(servers)], method, path, body, tag) for n, body in enumerate(bodies))
    )
    assert sorted(answer.status for answer in answers) == [200] + [412] * (AT_ONCE - 1)
    assert {answer.code for answer in answers if answer.status == 412} == {PreconditionFailed.code}
    winner = next(answer for answer in answers if answer.status == 200)
    for server in servers:
        seen = await send(server, "GET", path)
        assert seen.headers["ETag"] == winner.headers["ETag"] != tag
        assert [seen.body.get(key) for key in ("settings", "routines", "description", "policy")] == [
            winner.body.get(key) for key in ("settings", "routines", "description", "policy")
        ]


@pytest.mark.parametrize("kind", CHANGES)
async def test_without_a_tag_each_change_is_made_and_the_tag_of_its_answer_serves_for_the_next(
    servers: Sequence[Live], kind: str
) -> None:
    method, path, bodies = CHANGES[kind]
    plain = [(await send(servers[-1], method, path, body)).status for body in bodies[:2]]
    assert plain == [200, 200]
    first = await send(servers[0], method, path, bodies[2])
    second = await send(servers[-1], method, path, bodies[3], first.headers["ETag"])
    assert (first.status, second.status) == (200, 200)
    for form in ('"other", {}', "*", "W/{}"):
        second = await send(servers[0], method, path, bodies[3], form.format(second.headers["ETag"]))
        assert second.status == 200
    assert (await send(servers[0], method, path, bodies[4], '"other"')).status == 412


async def test_the_refusal_names_who_changed_the_settings_last_and_says_what_to_do(servers: Sequence[Live]) -> None:
    status, person = await servers[0].rest("POST", "/tokens", {"name": "bea", "role": "operator"})
    assert status == 201
    for kind in ("coordination", "schedule"):
        method, path, bodies = CHANGES[kind]
        before = (await send(servers[0], "GET", path)).body["etag"]
        assert (await send(servers[-1], method, path, bodies[0], token=person["token"])).status == 200
        refused = await send(servers[0], method, path, bodies[1], before)
        assert (refused.status, refused.body["detail"]) == (
            412,
            f"the {kind} of 'ann' changed after you read it, last by 'operator/bea': read it again, then write",
        )
    method, path, bodies = CHANGES["bank"]
    refused = await send(servers[0], method, path, bodies[0], '"other"')
    assert refused.body["detail"] == "bank 'notes' changed after you read it: read it again, then write"


async def test_the_reset_of_a_setting_takes_a_tag_too(servers: Sequence[Live]) -> None:
    path = "/agents/ann/coordination"
    changed = await send(servers[0], "PATCH", path, {"on_busy": "refuse"})
    assert (await send(servers[-1], "DELETE", f"{path}/on_busy", if_match='"other"')).status == 412
    assert (await send(servers[-1], "DELETE", f"{path}/on_busy", if_match=changed.headers["ETag"])).status == 200


async def test_the_state_of_an_agent_and_its_routines_does_not_change_the_tags(servers: Sequence[Live]) -> None:
    await send(servers[0], *CHANGES["schedule"][:2], CHANGES["schedule"][2][0])
    paths = [path for _, path, _ in CHANGES.values()]
    before = [(await send(servers[0], "GET", path)).headers["ETag"] for path in paths]
    await servers[0].sleeping(True)
    assert (await servers[0].rest("POST", "/banks/notes/episodes", {"text": "Tea."}))[0] == 201
    assert [(await send(servers[-1], "GET", path)).headers["ETag"] for path in paths] == before
