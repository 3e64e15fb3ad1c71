"""What agents, senders of hooks and people do, so that events of each kind occur, seen through the public doors."""

import asyncio
import json
from typing import Any

from tests.interaction.live import CHAT, Live
from tests.wake.hook_senders import SECRETS, sign

HOOK_ENVIRONMENT = {"GITHUB_SECRET": SECRETS["github"]}
LONG_AGO = "2026-01-01T00:00:00Z"


async def ok(at: Live, method: str, path: str, body: object = None, **given: Any) -> Any:
    """Return the body of an answer that is a success."""
    status, answer = await at.rest(method, path, body, **given)
    assert status < 300, answer
    return answer


async def found(at: Live, path: str, key: str) -> Any:
    """Return the first row of a list, once it has one."""
    async with asyncio.timeout(60):
        while not (rows := (await ok(at, "GET", path))[key]):
            await asyncio.sleep(0.02)
    return rows[0]


async def waits_and_hooks(at: Live) -> None:
    """An agent waits for an event and for an alarm, and a sender posts to a hook."""
    token = await at.agent("zoe")
    await ok(at, "POST", "/agents/zoe/event-waits", {"name": "batch.completed", "timeout_seconds": 0}, token=token)
    await ok(at, "POST", "/events/batch.completed", {"data": {"id": 7}})
    wish = {"sleeping": True, "for_seconds": 3600}
    await ok(at, "PUT", "/sessions/default/agents/zoe/sleeping", wish, token=token)
    hook = {"agent": "zoe", "signature": "github", "secret_env": "GITHUB_SECRET"}
    await ok(at, "PUT", "/hooks/github", hook)
    body = json.dumps({"action": "opened"}).encode()
    async with at.http.post(f"{at.url}/hooks/github", data=body, headers=sign("github", body, at=0)) as answer:
        assert answer.status == 202, await answer.text()
    await ok(at, "DELETE", "/sessions/default/agents/zoe")


async def approvals_and_resumed_answers(at: Live) -> None:
    """A person refuses a call, and the caller of another fetches its answer again."""
    careful = await at.agent("zed", approve_models=["*"])
    call = asyncio.create_task(at.answered(careful))
    approval = await found(at, "/approvals?status=pending", "approvals")
    await ok(at, "POST", f"/approvals/{approval['id']}/refuse", {"reason": "too dear"})
    assert (await call)[0] == 403
    token = await at.agent("zac", resume_seconds=60.0)
    async with at.call(token, body={**CHAT, "stream": True}) as response:
        key = response.headers["x-circadia-call"]
        await response.read()
    headers = {"authorization": f"Bearer {token}"}
    async with at.http.get(f"{at.url}/api/v1/calls/{key}/answer", headers=headers) as answer:
        assert answer.status == 200, await answer.text()
        await answer.read()
    for name in ("zed", "zac"):
        await ok(at, "DELETE", f"/sessions/default/agents/{name}")


async def reviews(at: Live) -> None:
    """A person demotes an episode, copies a note into another bank, and refuses what a pass proposes."""
    for name in ("said", "shared"):
        await ok(at, "POST", "/banks", {"name": name, "policy": {"duplicate_seconds": 0}})
    text = "My dog is called Rex, I think."
    first, second = [
        (await ok(at, "POST", "/banks/said/episodes", {"text": text, "speaker": "ann", "conversation": talk}))["id"]
        for talk in ("one", "two")
    ]
    note = {
        "type": "note", "id": "not_1", "kind": "consolidation", "at": LONG_AGO, "trust": "person",
        "text": "Rex is a dog.", "evidence": [first, second], "created_at": LONG_AGO,
    }  # fmt: skip
    await ok(at, "POST", "/banks/said/import", note)
    (kept,) = (await ok(at, "GET", "/banks/said/notes"))["notes"]
    await ok(at, "POST", f"/banks/said/notes/{kept['id']}/promote", {"to": "shared"})
    run = await ok(at, "POST", "/banks/said/passes", {"review": True, "full": True, "wait_seconds": 60})
    assert run["counts"]["staged"], run
    await ok(at, "POST", f"/passes/{run['id']}/refuse")
    await ok(at, "POST", f"/banks/said/episodes/{first}/stale", {"evidence": second})


async def acknowledge(at: Live) -> None:
    alert = await found(at, "/alerts?open=true", "alerts")
    await ok(at, "POST", f"/alerts/{alert['id']}/acknowledge")
