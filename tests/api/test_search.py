"""One search over names and ids, the configuration in force, and how answers are compressed (UI-20, UI-22)."""

import json
from typing import Any

import pytest

from tests.api.service import ADMIN, Service

pytestmark = pytest.mark.spec("UI-20")


async def found(service: Service, q: str, more: str = "") -> list[tuple[str, str]]:
    answer = await service.ok("GET", f"/search?q={q}{more}")
    return [(match["kind"], match["name"]) for match in answer["matches"]]


async def test_things_are_found_by_the_beginning_of_their_name_or_id_and_by_a_part_of_it(service: Service) -> None:
    token = await service.agent("writer", description="writes")
    await service.agent("co-writer")
    await service.ok("POST", "/sessions", {"name": "writers"})
    await service.ok("POST", "/banks", {"name": "writing", "description": "rules"})
    thread = await service.ok("POST", "/sessions/default/threads", {"name": "writ 7", "participants": ["writer"]})
    assert await found(service, "writ") == [
        ("agent", "writer"), ("agent", "co-writer"), ("session", "writers"), ("thread", "writ 7"), ("bank", "writing"),
    ]  # fmt: skip
    assert await found(service, "WRITER") == [("agent", "co-writer"), ("agent", "writer"), ("session", "writers")]
    assert await found(service, "writ", "&limit=1") == [
        ("agent", "writer"), ("session", "writers"), ("thread", "writ 7"), ("bank", "writing"),
    ]  # fmt: skip
    assert await found(service, "%25") == await found(service, "_") == []
    sent = await service.ok("POST", "/messages", {"to": "co-writer", "content": "please start"}, token=token)
    wake = await service.ok("POST", "/wakes", {"to": "writer", "reason": "blocker"})
    for identity, match in (
        (sent["message"], {"kind": "message", "name": "writer", "about": "please start", "place": sent["message"]}),
        (wake["wake"], {"kind": "wake", "name": "writer", "session": None, "place": wake["root"]}),
        (thread["id"], {"kind": "thread", "name": "writ 7", "session": "default", "about": "open"}),
    ):
        (only,) = (await service.ok("GET", f"/search?q={identity}"))["matches"]
        assert only["id"] == identity
        assert {name: only[name] for name in match} == match
    assert (await service.call("GET", "/search?q=writ", token=token)).status == 403
    assert (await service.call("GET", "/search?q=")).status == 422


async def test_the_texts_of_the_bank_that_is_open_are_found_too(service: Service) -> None:
    await service.ok("POST", "/banks", {"name": "team"})
    await service.ok("POST", "/banks/team/episodes", {"text": "The harbour opens at nine."})
    answer = await service.ok("GET", "/search?q=harbour&bank=team")
    assert [(hit["bank"], hit["text"]) for hit in answer["hits"]] == [("team", "The harbour opens at nine.")]
    assert (await service.call("GET", "/search?q=harbour&bank=other")).status == 404


async def test_banks_are_listed_by_the_beginning_of_their_name_page_by_page(service: Service) -> None:
    for name in ("a", "team-1", "team-2", "team-3", "teas"):
        await service.ok("POST", "/banks", {"name": name})
    first = await service.ok("GET", "/banks?name=team-&limit=2")
    assert ([bank["name"] for bank in first["banks"]], first["after"]) == (["team-1", "team-2"], "team-2")
    last = await service.ok("GET", "/banks?name=team-&limit=2&after=team-2")
    assert ([bank["name"] for bank in last["banks"]], last["after"]) == (["team-3"], None)
    assert (await service.ok("GET", "/banks?name=b"))["banks"] == []


async def test_the_last_messages_of_a_thread_are_read_back_to_the_first(service: Service) -> None:
    await service.agent("ann")
    thread = (await service.ok("POST", "/sessions/default/threads", {"name": "t", "participants": ["ann"]}))["id"]
    path = f"/sessions/default/threads/{thread}/messages"
    for number in range(5):
        await service.ok("POST", path, {"content": f"m{number}"})
    seen: list[str] = []
    before = 2**53
    for _ in range(3):
        page = (await service.ok("GET", f"{path}?before={before}&limit=2"))["messages"]
        seen, before = [*(message["content"] for message in page), *seen], page[0]["number"]
    assert seen == [f"m{number}" for number in range(5)]


async def test_large_and_small_answers_are_compressed_for_those_who_take_it_and_streams_never(service: Service) -> None:
    for number in range(40):
        await service.ok("POST", "/banks", {"name": f"bank-{number}", "description": "x" * 3_000})
    headers = {"Authorization": f"Bearer {ADMIN}", "Accept-Encoding": "gzip"}

    async def read(path: str, **more: str) -> tuple[Any, bytes]:
        url, sent = f"{service.url}/api/v1{path}", {**headers, **more}
        async with service.http.get(url, headers=sent) as answer:
            return answer.headers, await answer.read()

    for limit in (3, 40):
        told, body = await read(f"/banks?limit={limit}")
        assert told["Content-Encoding"] == "gzip"
        assert "Accept-Encoding" in told["Vary"]
        assert int(told["Content-Length"]) < len(body) / 4
        assert len(json.loads(body)["banks"]) == limit
    told, body = await read("/banks?limit=40", **{"Accept-Encoding": "identity"})
    assert "Content-Encoding" not in told
    assert "Content-Encoding" not in (await read("/me"))[0]
    async with service.http.get(f"{service.url}/api/v1/events/stream?after=0", headers=headers) as stream:
        assert "Content-Encoding" not in stream.headers
        assert (await stream.content.readany()).startswith(b"retry:")


@pytest.mark.spec("UI-22")
async def test_the_configuration_in_force_is_shown_with_its_sources_and_without_secrets(service: Service) -> None:
    shown = await service.ok("GET", "/config")
    settings = {setting["key"]: setting for setting in shown["settings"]}
    assert settings["server.port"] == {"key": "server.port", "value": 4114, "source": "built in"}
    assert len(shown["check"]) == 8
    token = await service.agent("ann")
    assert (await service.call("GET", "/config", token=token)).status == 403
