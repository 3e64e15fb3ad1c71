"""Webhooks and named events that were made to break a server, and hooks that are named events besides (WAKE-82)."""

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import pytest

from tests.interaction.live import live
from tests.interaction.test_hooks import ENVIRONMENT, deliver, hook, hooked, inbox, post
from tests.interaction.test_missed_mentions import tool
from tests.interaction.test_named_events import waits
from tests.wake.hook_senders import sign


def nested(depth: int, *, lists: bool = True) -> bytes:
    """Return a JSON object with a value that is nested so deep."""
    begin, end = (b"[", b"]") if lists else (b'{"x":', b"}")
    return b'{"x":' + begin * depth + b"1" + end * depth + b"}"


@pytest.mark.spec("WAKE-82")
@pytest.mark.parametrize("lists", [True, False])
async def test_a_body_that_is_nested_too_deep_is_refused_or_read_and_never_a_failure(
    tmp_path: Path, lists: bool
) -> None:
    hooks = {
        "filtered": hook("github", filter={"body.x.x": 1, "body.y": {"not": 1}}),
        "shown": hook("github", template="{body.x}"),
        "event": {**hook("github"), "event": "deep"},
    }
    async with hooked(tmp_path, hooks) as server:
        for depth in (50, 200, 300, 900, 1_020, 5_000):
            body = nested(depth, lists=lists)
            for name in hooks:
                status, answer = await post(server, name, body, sign("github", body, at=0, delivery=f"{name}{depth}"))
                assert status in (200, 202, 422), (name, depth, answer)
                assert status != 422 or depth > 100, (name, depth, answer)
        assert len(await inbox(server)) >= 2


@pytest.mark.spec("WAKE-81")
@pytest.mark.parametrize(
    "data", [nested(300), nested(300, lists=False), b'{"x":"\\ud800"}', b'{"\\ud800":1}', b'{"x":"\\u0000"}']
)
async def test_an_event_of_broken_or_deep_data_is_refused_or_delivered_and_never_a_failure(
    tmp_path: Path, data: bytes
) -> None:
    async with live(tmp_path) as server:
        ann = await server.agent("ann")
        await tool(server, ann, "wait_for_event", name="odd", timeout_seconds=0)
        headers = {"authorization": f"Bearer {ann}", "content-type": "application/json"}
        url = f"{server.url}/api/v1/events/odd"
        async with server.http.post(url, data=b'{"data":' + data + b"}", headers=headers) as answer:
            assert answer.status in (200, 422), await answer.text()
            taken = answer.status == 200
        found = await tool(server, ann, "wait_for_event", name="odd", timeout_seconds=0)
        assert found["timed_out"] is not taken


@pytest.mark.spec("WAKE-81")
async def test_a_filter_that_is_as_deep_as_it_may_be_stops_no_event_of_others(tmp_path: Path) -> None:
    async with live(tmp_path) as server:
        ann, bob = await server.agent("ann"), await server.agent("bob")
        for depth in (240, 600):
            wanted = json.loads(nested(depth, lists=False))
            body = {"name": "deep", "filter": wanted, "timeout_seconds": 0}
            assert (await server.rest("POST", "/agents/ann/event-waits", body, token=ann))[0] in (200, 422)
        await tool(server, bob, "wait_for_event", name="deep", timeout_seconds=0)
        status, _ = await server.rest("POST", "/events/deep", {"data": json.loads(nested(240, lists=False))})
        assert status in (200, 422)
        status, answer = await server.rest("POST", "/events/deep", {"data": {"x": 1}})
        assert status == 200, answer
        found = await tool(server, bob, "wait_for_event", name="deep", timeout_seconds=0)
        assert not found["timed_out"]


@pytest.mark.spec("WAKE-82")
async def test_a_delivery_is_read_as_utf_8_and_a_form_without_json_is_refused(tmp_path: Path) -> None:
    async with hooked(tmp_path, {"github": hook("github")}) as server:
        form = {"Content-Type": "application/x-www-form-urlencoded"}
        for body, headers in (
            (b"\xff", {}), (b'{"a": "\xff"}', {}), (b"payload=%5B1%5D", form), (b"payload=%7B", form),
            (b"\xff=1", form), (b"payload=%FF", form),
        ):  # fmt: skip
            status, answer = await post(server, "github", body, {**sign("github", body, at=0), **headers})
            assert status == 422, (body, answer)
        assert await inbox(server) == []


@pytest.mark.spec("WAKE-82")
async def test_an_event_of_a_hook_is_had_once_and_a_long_one_is_refused(tmp_path: Path, postgres_url: str) -> None:
    keys = {**hook("github"), "agent": None, "event": "pushed"}
    shared: dict[str, Any] = {
        "server": {"database_url": postgres_url}, "hooks": {"github": keys}, "environment": ENVIRONMENT,
        "limits": {"max_message_characters": 2_000},
    }  # fmt: skip
    async with live(tmp_path / "a", **shared) as here, live(tmp_path / "b", **shared) as there:
        ann = await here.agent("ann")
        await tool(here, ann, "wait_for_event", name="pushed", timeout_seconds=0)
        for number in range(10):
            content = {"n": number}
            ids = ["same"] * 4 if number % 2 else ["one", "two", "three", "four"]  # a replay has the body only
            answers = await asyncio.gather(
                *(
                    deliver(at, "github", content, delivery=f"{number} {delivery}")
                    for at, delivery in zip((here, there, here, there), ids, strict=True)
                )
            )
            assert sorted(status for status, _ in answers) == [200, 200, 200, 202]
            found = await tool(there, ann, "wait_for_event", name="pushed", timeout_seconds=0)
            assert found["event"]["data"] == content
            found = await tool(here, ann, "wait_for_event", name="pushed", timeout_seconds=0)
            assert found["timed_out"]
        assert len(await waits(here)) == 1
        status, answer = await deliver(here, "github", {"text": "x" * 3_000}, delivery="long")
        assert (status, answer["code"]) == (422, "invalid_request")


@pytest.mark.spec("WAKE-82")
async def test_bodies_that_come_slowly_take_bounded_room_and_others_are_told_to_come_again(tmp_path: Path) -> None:
    async with hooked(tmp_path, {"github": hook("github")}) as server:
        host, port = server.url.removeprefix("http://").split(":")
        head = f"POST /hooks/github HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Length: 9\r\n\r\n{{"
        slow: list[asyncio.StreamWriter] = []
        try:
            async with asyncio.timeout(60):
                for _ in range(256):
                    _, writer = await asyncio.open_connection(host, int(port))
                    slow.append(writer)
                    writer.write(head.encode())
                    await writer.drain()
                while (found := await deliver(server, "github", {"n": 1}))[0] != 429:
                    await asyncio.sleep(0.01)
            assert found[1]["code"] == "limit_reached"
        finally:
            for writer in slow:
                writer.close()
        async with asyncio.timeout(60):
            while (await deliver(server, "github", {"n": 2}, delivery="d2"))[0] == 429:
                await asyncio.sleep(0.01)


@pytest.mark.spec("WAKE-82")
async def test_an_event_whose_delivery_is_not_stored_is_had_once_however_often_it_is_sent(tmp_path: Path) -> None:
    hooks = {"github": {**hook("github"), "event": "pushed"}}
    async with hooked(tmp_path, hooks) as server:
        bob = await server.agent("bob")
        await server.rest("PATCH", "/sessions/default/agents/ann", {"enabled": False})
        found: list[bool] = []
        for status in (409, 409, 202, 200):  # as after a kill between the event and its delivery
            if status == 202:
                await server.rest("PATCH", "/sessions/default/agents/ann", {"enabled": True})
            assert (await deliver(server, "github", {"n": 1}))[0] == status
            found.append((await tool(server, bob, "wait_for_event", name="pushed", timeout_seconds=0))["timed_out"])
        assert found == [False, True, True, True]
        assert len(await inbox(server)) == 1


@pytest.mark.spec("WAKE-82")
@pytest.mark.parametrize("scheme", ["stripe", "slack", "standard", "hmac"])
async def test_a_time_of_any_size_and_many_signatures_are_judged_and_never_a_failure(
    tmp_path: Path, scheme: str
) -> None:
    keys = {"hmac": {"timestamp_header": "x-at"}} if scheme == "hmac" else {}
    async with hooked(tmp_path, {scheme: hook(scheme, **keys)}) as server:
        body = b'{"id": "1"}'
        good = sign(scheme, body, at=time.time())
        stamp = {"stripe": "", "slack": "X-Slack-Request-Timestamp", "standard": "webhook-timestamp", "hmac": "X-At"}
        for wrong in ("", "-1", "1e9", "9" * 12, "9" * 400, "١٢٣", "0x10", " 1 ", "1.5", "nan"):
            headers = dict(good)
            if scheme == "stripe":
                headers["Stripe-Signature"] = f"t={wrong},v1=" + ",v1=".join(["0" * 64] * 500)
            else:
                headers[stamp[scheme]] = wrong
            encoded = {name: value.encode().decode("latin-1") for name, value in headers.items()}
            assert (await post(server, scheme, body, encoded))[0] == 401, wrong
        assert await inbox(server) == []
