"""Blocks over REST: versions, limits, who may write, undo; contexts; and what is forgotten."""

import json
from typing import Any

import pytest

from circadia.ids import EpisodeId
from circadia.memory.blocks import BlockAuthor, BlockUpdate
from circadia.records.block import BlockSpan
from tests.api.service import Service

HUMAN = "/banks/team/blocks/human"


@pytest.fixture(autouse=True)
async def team(service: Service) -> None:
    """Make the bank that the tests use."""
    await service.ok("POST", "/banks", {"name": "team"})


async def write(service: Service, value: str | None = None, *, label: str = "human", **more: Any) -> Any:
    return await service.ok("PUT", f"/banks/team/blocks/{label}", {"value": value, **more})


async def values(service: Service) -> list[str]:
    return [each["value"] for each in (await service.ok("GET", f"{HUMAN}/history"))["blocks"]]


@pytest.mark.spec("MEM-09")
async def test_each_write_is_a_version_and_what_is_left_out_stays(service: Service) -> None:
    first = await write(service, "Ann lives in Rome.", description="whom we serve", limit=100, pinned=False)
    assert (first["version"], first["parent"], first["by"], first["limit"]) == (1, None, "operator", 100)
    second = await write(service, "Ann lives in Porto.", expected_version=1, why="moved")
    assert (second["version"], second["parent"], second["why"]) == (2, 1, "moved")
    assert (second["description"], second["limit"], second["pinned"]) == ("whom we serve", 100, False)
    assert await service.ok("GET", HUMAN) == second
    await write(service, label="empty")
    listed = (await service.ok("GET", "/banks/team/blocks"))["blocks"]
    assert [each["label"] for each in listed] == ["empty", "human"]
    events = [each["data"] for each in await service.events("block")]
    assert events[1] == {"bank": "team", "label": "human", "version": 2, "by": "operator", "deleted": False}


@pytest.mark.spec("MEM-09", "MEM-17")
async def test_a_write_that_is_not_allowed_changes_nothing_and_says_what_to_do(service: Service) -> None:
    await write(service, "twelve chars", limit=20)
    for body, status, said in (
        ({"value": "a" * 21}, 422, "shorten it by 1"),
        ({"limit": 5}, 422, "shorten it by 7"),
        ({"limit": 100_001}, 422, "1 to 100000"),
        ({"value": "b", "expected_version": 2}, 409, "is at version 1"),
        ({"value": "b", "expected_version": 0}, 409, "read it again"),
        ({"value": "a\x00"}, 422, "NUL"),
        ({"value": "\ud800"}, 422, "surrogate"),
        ({"value": "b", "pin": True}, 422, "unknown key"),
    ):
        answer = await service.call("PUT", HUMAN, data=json.dumps(body).encode())
        assert (answer.status, said in answer.body["detail"]) == (status, True), (body, answer.body)
    assert (await service.call("PUT", "/banks/team/blocks/new", {"value": "b", "expected_version": 1})).status == 409
    assert (await service.call("PUT", f"/banks/team/blocks/{'l' * 101}", {"value": "b"})).status == 422
    assert (await service.call("PUT", "/banks/nowhere/blocks/a", {"value": "b"})).status == 404
    missing = await service.call("GET", "/banks/team/blocks/humn")
    assert (missing.status, "'human'" in missing.body["detail"]) == (404, True)
    assert await values(service) == ["twelve chars"]
    assert len(await service.events("block")) == 1


@pytest.mark.spec("MEM-11")
async def test_undo_goes_back_step_by_step_and_what_is_written_then_branches_off(service: Service) -> None:
    for value in ("one", "two", "three"):
        await write(service, value)
    assert (await service.ok("POST", f"{HUMAN}/undo"))["value"] == "two"
    assert (await service.ok("POST", f"{HUMAN}/undo"))["value"] == "one"
    assert (await service.call("POST", f"{HUMAN}/undo")).code == "not_found"
    assert (await service.ok("POST", f"{HUMAN}/undo", {"to": 3}))["value"] == "three"
    await service.ok("POST", f"{HUMAN}/undo", {"to": 2})
    branch = await write(service, "two and a half")
    assert (branch["version"], branch["parent"]) == (8, 7)
    assert (await service.ok("POST", f"{HUMAN}/undo"))["value"] == "two"
    assert await values(service) == ["one", "two", "three", "two", "one", "three", "two", "two and a half", "two"]
    assert (await service.call("POST", f"{HUMAN}/undo", {"expected_version": 8})).code == "conflict"
    for wrong in ({"to": 99}, {"to": 0}):
        assert (await service.call("POST", f"{HUMAN}/undo", wrong)).code == "not_found"
    assert (await service.call("POST", "/banks/team/blocks/never/undo")).code == "not_found"


@pytest.mark.spec("MEM-11")
async def test_a_deleted_block_is_gone_until_it_is_undone(service: Service) -> None:
    await write(service, "one")
    assert (await service.call("DELETE", f"{HUMAN}?expected_version=2")).code == "conflict"
    gone = await service.ok("DELETE", f"{HUMAN}?why=tidy&expected_version=1")
    assert (gone["deleted"], gone["version"], gone["why"]) == (True, 2, "tidy")
    assert (await service.call("GET", HUMAN)).code == "not_found"
    assert (await service.call("DELETE", HUMAN)).code == "not_found"
    assert (await service.ok("GET", "/banks/team/blocks"))["blocks"] == []
    assert (await service.ok("POST", f"{HUMAN}/undo"))["value"] == "one"
    assert (await service.ok("GET", HUMAN))["version"] == 3


@pytest.mark.spec("MEM-11")
async def test_all_blocks_go_back_to_what_they_were_at_a_time(service: Service) -> None:
    await write(service, "one")
    await write(service, "same", label="same")
    then = service.clock.now().isoformat()
    service.clock.advance(60)
    await write(service, "two")
    await write(service, "late", label="late")
    made = (await service.ok("POST", "/banks/team/restore", {"at": then}))["blocks"]
    assert {each["label"]: (each["value"], each["deleted"]) for each in made} == {
        "human": ("one", False), "late": ("", True),
    }  # fmt: skip
    assert (await service.ok("POST", "/banks/team/restore", {"at": then}))["blocks"] == []
    for body in ({}, {"at": None}, {"at": "then"}):
        assert (await service.call("POST", "/banks/team/restore", body)).code == "invalid_request"


@pytest.mark.spec("MEM-10", "MEM-12")
async def test_an_agent_writes_blocks_only_where_the_banks_policy_says_so(service: Service) -> None:
    await write(service, "one")
    ann = await service.agent("ann", bank="team")
    reader = await service.agent("reader", read_banks=["team"])
    assert (await service.ok("GET", HUMAN, token=ann))["value"] == "one"
    refused = await service.call("PUT", HUMAN, {"value": "two"}, token=ann)
    assert (refused.code, "hot_edits" in refused.body["detail"]) == ("forbidden", True)
    assert (await service.call("DELETE", HUMAN, token=ann)).code == "forbidden"
    await service.ok("PATCH", "/banks/team", {"policy": {"hot_edits": True}})
    made = await service.ok("PUT", HUMAN, {"value": "two"}, token=ann)
    assert (made["by"], made["version"]) == ("ann", 2)
    for body in ({"limit": 9000}, {"read_only": True}):
        assert (await service.call("PUT", HUMAN, body, token=ann)).code == "forbidden"
    await write(service, read_only=True)
    assert (await service.call("PUT", HUMAN, {"value": "three"}, token=ann)).code == "forbidden"
    assert (await service.call("PUT", HUMAN, {"value": "three"}, token=reader)).code == "forbidden"
    later: list[tuple[str, dict[str, Any] | None]] = [
        (f"{HUMAN}/undo", None), ("/banks/team/restore", {"at": "2026-01-01"}), ("/banks/team/forget", {"ids": []}),
    ]  # fmt: skip
    for path, body in later:
        assert (await service.call("POST", path, body, token=ann)).code == "forbidden"
    assert await values(service) == ["one", "two", "two"]


@pytest.mark.spec("MEM-13")
async def test_a_context_has_blocks_for_the_system_side_and_fenced_hits_for_the_question(service: Service) -> None:
    await write(service, "Ann lives in Porto.", description="whom we serve")
    await write(service, "x" * 4000, label="long")
    said = await service.ok("POST", "/banks/team/episodes", {"text": "My cat is called Tom.", "speaker": "ann"})
    told = await service.ok("GET", "/banks/team/context?q=what+is+the+cat+called&stable_tokens=200")
    assert (told["blocks"], told["left_out"]) == (["human"], ["long"])
    assert "Ann lives in Porto." in told["stable"]
    assert "cat" not in told["stable"]
    assert told["fitting"].startswith("<circadia-memory ")
    assert "My cat is called Tom." in told["fitting"]
    assert [each["id"] for each in told["hits"]] == [said["id"]]
    again = await service.ok("GET", "/banks/team/context")
    assert (again["fitting"], again["blocks"], again["left_out"]) == ("", ["human", "long"], [])
    assert (await service.ok("GET", "/banks/team/context?q=cat&fitting_tokens=0"))["hits"] == []
    for wrong in ("stable_tokens=-1", "fitting_tokens=a"):
        assert (await service.call("GET", f"/banks/team/context?{wrong}")).code == "invalid_request"


async def rest_on(service: Service, episode: str) -> None:
    """Write a block with a line that rests on the episode, as a pass does."""
    value = "kept\nAnn moved to Porto."
    span = BlockSpan(start=5, end=len(value), episodes=(EpisodeId(episode),))
    async with service.parts.store.begin_write() as tx:
        bank = await service.parts.memory.banks.get(tx, "team")
        edit = BlockUpdate(value=value, spans=(span,))
        await service.parts.memory.blocks.write(tx, bank, "human", edit, writer=BlockAuthor.SLEEP, by="pass")


@pytest.mark.spec("MEM-03")
async def test_what_is_forgotten_goes_with_all_that_rests_on_it_and_nothing_else(service: Service) -> None:
    gone = await service.ok("POST", "/banks/team/episodes", {"text": "I moved to Porto.", "speaker": "ann"})
    await service.ok("POST", "/banks/team/episodes", {"text": "Porto is nice.", "speaker": "bob"})
    await rest_on(service, gone["id"])
    await write(service, "kept\nAnn moved to Porto.\nmore")
    would = await service.ok("POST", "/banks/team/forget", {"speaker": "ann", "dry_run": True})
    assert would == {"bank": "team", "episodes": 1, "notes": 0, "versions": 2, "copies": 0, "dry_run": True}
    assert (await service.ok("GET", "/banks/team"))["episodes"] == 2
    assert await service.ok("POST", "/banks/team/forget", {"speaker": "ann"}) == {**would, "dry_run": False}
    assert await values(service) == ["kept", "kept\nmore"]
    hits = (await service.ok("GET", "/banks/team/search?q=Porto"))["hits"]
    assert [each["text"] for each in hits] == ["Porto is nice."]
    assert (await service.call("GET", f"/banks/team/episodes/{gone['id']}")).code == "not_found"
    (event,) = await service.events("forgotten")
    assert event["data"] == {"bank": "team", "by": "operator", "episodes": 1, "notes": 0, "versions": 2}


@pytest.mark.spec("MEM-03")
async def test_forget_takes_ids_and_conditions_and_never_means_all(service: Service) -> None:
    made = [
        await service.ok(
            "POST", "/banks/team/episodes", {"text": f"n{number}", "speaker": who, "conversation": conversation}
        )
        for number, (who, conversation) in enumerate([("ann", "a"), ("ann", "b"), ("bob", "a"), ("bob", "b")])
    ]

    async def left(**body: object) -> list[str]:
        await service.ok("POST", "/banks/team/forget", body)
        return [each["text"] for each in (await service.ok("GET", "/banks/team/episodes"))["episodes"]]

    for wrong in ({}, {"dry_run": True}, {"ids": None}, {"since": "then"}, {"id": "epi_1"}):
        assert (await service.call("POST", "/banks/team/forget", wrong)).code == "invalid_request"
    assert (await service.call("POST", "/banks/nowhere/forget", {"speaker": "ann"})).code == "not_found"
    assert await left(ids=[]) == ["n0", "n1", "n2", "n3"]
    assert await left(ids=["epi_nowhere"]) == ["n0", "n1", "n2", "n3"]
    assert await left(until="2026-01-01") == ["n0", "n1", "n2", "n3"]
    assert await left(ids=[made[0]["id"], made[3]["id"]], speaker="bob") == ["n0", "n1", "n2"]
    assert await left(speaker="ann", conversation="a") == ["n1", "n2"]
    assert await left(ids=[made[1]["id"]]) == ["n2"]
    assert await left(since="2026-01-01") == []
    assert len(await service.events("forgotten")) == 7
