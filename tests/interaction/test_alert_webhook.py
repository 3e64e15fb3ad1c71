"""What a program hears at the URL that a server's settings name for alerts."""

import asyncio
import base64
import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import openai
import pytest
from aiohttp import web

from tests.interaction.live import CHAT, Live, live
from tests.interaction.test_wakes import away, until
from tests.wake.launchers.webhook_bench import serving


@dataclass
class Pager:
    """Takes alerts at its URL, and refuses each pulse that is sent there."""

    alerts: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    requests: list[tuple[bytes, Mapping[str, str]]] = field(default_factory=list[tuple[bytes, Mapping[str, str]]])
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    async def handle(self, request: web.Request) -> web.Response:
        body = json.loads(await request.read())
        if body["type"] != "alert":
            return web.Response(status=422, text="no")
        self.alerts.append(body)
        self.requests.append((await request.read(), dict(request.headers)))
        self.changed.set()
        return web.Response(status=204)

    async def heard(self, cause: str) -> dict[str, Any]:
        """Return the first alert with this cause, once it is there."""
        async with asyncio.timeout(60):
            while True:
                self.changed.clear()
                for each in self.alerts:
                    if each["cause"] == cause:
                        return each
                await self.changed.wait()


@asynccontextmanager
async def paged(folder: Path, *, secret: str | None = None, **defaults: object) -> AsyncGenerator[tuple[Live, Pager]]:
    """Run a server whose settings name a pager for alerts, and with a `secret` sign them."""
    pager = Pager()
    async with serving(pager.handle) as url:
        fleet = {"alert_webhook_url": url, **({} if secret is None else {"alert_webhook_secret_env": "PAGER"})}
        more: dict[str, Any] = away(url)
        more["environment"] = {**more["environment"], "PAGER": secret or ""}
        async with live(folder, defaults=defaults, fleet=fleet, **more) as server:
            yield server, pager


async def wake_bob(server: Live) -> str:
    """Ask as the operator for a wake of bob, and return the pulse."""
    status, told = await server.rest("POST", "/wakes", {"to": "bob", "message": "go", "reason": "user_request"})
    assert (status, told["decision"]) == (201, "admitted"), told
    return told["pulse"]


@pytest.mark.spec("WAKE-76")
@pytest.mark.setting("fleet.alert_webhook_url")
async def test_a_streak_of_failures_an_open_circuit_and_most_wakes_of_a_day_reach_the_configured_webhook(
    tmp_path: Path,
) -> None:
    async with paged(tmp_path) as (server, pager):
        await server.agent("bob")
        await server.sleeping(True, "bob")
        for change in (
            {"launcher": "away", "heartbeat_minutes": None},
            {"wake_guardrails": {"cooldown_seconds": 0, "max_wakes_per_day": None}},
        ):
            assert (await server.rest("PATCH", "/agents/bob/coordination", change))[0] == 200
        for _ in range(3):
            await until(server, await wake_bob(server), "failed")
        streak = await pager.heard("failure_streak")
        assert {**streak, "id": "", "at": ""} == {
            "type": "alert", "id": "", "cause": "failure_streak", "session": "default", "agent": "bob", "at": "",
            "detail": {"failures": 3, "last": streak["detail"]["last"]},
        }  # fmt: skip
        assert "422" in streak["detail"]["last"]
        assert streak["id"].startswith("alr_")
        assert datetime.fromisoformat(streak["at"]).tzinfo is not None
        for _ in range(2):
            await until(server, await wake_bob(server), "failed")
        assert (await pager.heard("circuit_open"))["detail"]["failures"] == 5

        change = {"launcher": "resident", "wake_guardrails": {"cooldown_seconds": 0, "max_wakes_per_day": 5}}
        assert (await server.rest("PATCH", "/agents/bob/coordination", change))[0] == 200
        for _ in range(4):
            await wake_bob(server)
            await server.sleeping(True, "bob")
        assert (await pager.heard("budget"))["detail"] == {"wakes_today": 4, "max_wakes_per_day": 5}
        assert len(pager.alerts) == 3


@pytest.mark.spec("WAKE-76")
async def test_a_session_that_has_stalled_for_as_long_as_the_settings_say_reaches_the_configured_webhook(
    tmp_path: Path,
) -> None:
    async with paged(tmp_path, stall_seconds=0.1) as (server, pager):
        await server.agent("bob")
        await server.sleeping(True, "bob")
        alert = await pager.heard("stalled_session")
        assert (alert["session"], alert["agent"], list(alert["detail"])) == ("default", None, ["since"])


@pytest.mark.spec("WAKE-76")
@pytest.mark.setting("fleet.alert_webhook_secret_env")
async def test_an_alert_is_signed_as_the_settings_say(tmp_path: Path) -> None:
    secret = "whsec_" + base64.b64encode(b"a key of twenty-four byte").decode()
    async with paged(tmp_path, secret=secret, stall_seconds=0.1) as (server, pager):
        await server.agent("bob")
        await server.sleeping(True, "bob")
        alert = await pager.heard("stalled_session")
    body, headers = pager.requests[0]
    assert (headers["Content-Type"], headers["webhook-id"]) == ("application/json", alert["id"])
    openai.OpenAI(api_key="x", webhook_secret=secret).webhooks.verify_signature(body, headers)
    with pytest.raises(openai.InvalidWebhookSignatureError):
        openai.OpenAI(api_key="x", webhook_secret=secret).webhooks.verify_signature(body + b" ", headers)


async def test_without_a_secret_an_alert_has_no_signature(tmp_path: Path) -> None:
    async with paged(tmp_path, stall_seconds=0.1) as (server, pager):
        await server.agent("bob")
        await server.sleeping(True, "bob")
        await pager.heard("stalled_session")
    assert not [name for name in pager.requests[0][1] if name.lower().startswith("webhook-")]


@pytest.mark.spec("WAKE-76")
@pytest.mark.parametrize(
    ("limits", "calls", "detail"),
    [
        ({"max_calls_per_day": 5}, 4, {"calls_today": 4, "max_calls_per_day": 5}),
        ({"max_usd_per_day": 0.02}, 7, {"usd_today": 0.0168, "max_usd_per_day": 0.02}),
    ],
)
async def test_four_fifths_of_a_day_s_calls_and_dollars_reach_the_configured_webhook(
    tmp_path: Path, limits: dict[str, float], calls: int, detail: dict[str, float]
) -> None:
    async with paged(tmp_path) as (server, pager):
        token = await server.agent("bob", **limits)
        for _ in range(calls):
            said = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "hello"}}
            used = {"prompt_tokens": 1, "completion_tokens": 4_000, "total_tokens": 4_001}
            server.upstream.next(body={"object": "chat.completion", "choices": [said], "usage": used})
            async with server.call(token, body={**CHAT, "max_tokens": 4_000}) as answer:
                assert answer.status == 200
                await answer.read()
        alert = await pager.heard("budget")
        assert (alert["session"], alert["agent"]) == ("default", "bob")
        assert alert["detail"] == pytest.approx(detail, rel=0.01)
