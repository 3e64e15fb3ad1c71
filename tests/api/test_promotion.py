"""A note that a person copies into another bank: who, when and from where, behind its own walls, and gone with it."""

from datetime import datetime
from typing import Any

import pytest

from circadia.ids import BankId, EpisodeId, NoteId
from circadia.memory.search.terms import stored_terms
from circadia.records.bank import Trust
from circadia.records.note import Note, NoteKind
from tests.api.service import Service

pytestmark = pytest.mark.spec("MEM-35")

FACT = "Releases are on Fridays at noon."


async def derive(service: Service, bank: str, key: str, text: str = FACT) -> tuple[str, list[str]]:
    """Let a bank derive a note from two things that were said; return its id and theirs."""
    made = await service.ok("GET", f"/banks/{bank}")
    said = [
        (await service.ok("POST", f"/banks/{bank}/episodes", {"text": f"{text} Said so privately, {key} {number}."}))[
            "id"
        ]
        for number in range(2)
    ]
    note = Note(
        id=NoteId(key), number=0, bank_id=BankId(made["id"]), kind=NoteKind.CONSOLIDATION, text=text,
        trust=Trust.PERSON, at=service.clock.now(), created_at=service.clock.now(), terms=stored_terms(text),
        evidence=[EpisodeId(each) for each in said],
    )  # fmt: skip
    async with service.parts.store.begin_write() as tx:
        await tx.notes.add(note)
    return key, said


async def hits(service: Service, bank: str, query: str = "Fridays") -> list[Any]:
    return (await service.ok("GET", f"/banks/{bank}/search?q={query}"))["hits"]


@pytest.fixture
async def note(service: Service) -> tuple[str, list[str]]:
    """A note of the bank `mine`, and what it rests on; the bank `team` is there too."""
    for name in ("mine", "team"):
        await service.ok("POST", "/banks", {"name": name})
    return await derive(service, "mine", "not_1")


async def test_a_copy_says_who_when_and_from_which_note_and_shows_nothing_else_of_its_bank(
    service: Service, note: tuple[str, list[str]]
) -> None:
    copy = await service.ok("POST", "/banks/mine/notes/not_1/promote", {"to": "team"})
    assert (copy["bank"], copy["text"], copy["trust"], copy["speaker"], copy["new"]) == (
        "team", FACT, "person", "operator", True,
    )  # fmt: skip
    promoted = copy["metadata"]["promoted"]
    assert (promoted["note"], promoted["by"]) == ("not_1", "operator")
    assert datetime.fromisoformat(promoted["at"]) <= service.clock.now()
    again = await service.ok("POST", "/banks/mine/notes/not_1/promote", {"to": "team"})
    assert (again["id"], again["new"]) == (copy["id"], False)
    (hit,) = await hits(service, "team")
    assert hit["id"] == copy["id"]
    for path in ("notes/not_1", f"episodes/{note[1][0]}"):
        assert (await service.call("GET", f"/banks/team/{path}")).status == 404
    assert "privately" not in str(await service.ok("GET", "/banks/team/context?q=privately"))


async def test_who_forgets_what_the_note_rests_on_forgets_the_copy_and_what_rests_on_that(
    service: Service, note: tuple[str, list[str]]
) -> None:
    copy = await service.ok("POST", "/banks/mine/notes/not_1/promote", {"to": "team"})
    other = await service.ok("POST", "/banks/team/episodes", {"text": "The garden is green."})
    async with service.parts.store.begin_write() as tx:
        made = await tx.banks.get_by_name("team")
        assert made is not None
        await tx.notes.add(
            Note(
                id=NoteId("not_2"), number=0, bank_id=made.id, kind=NoteKind.BELIEF, text="Fridays are busy.",
                trust=Trust.PERSON, at=service.clock.now(), created_at=service.clock.now(),
                terms=stored_terms("Fridays are busy."), evidence=[EpisodeId(copy["id"])],
            )
        )  # fmt: skip
    assert len(await hits(service, "team")) == 2
    would = await service.ok("POST", "/banks/mine/forget", {"ids": [note[1][1]], "dry_run": True})
    assert (would["episodes"], would["notes"], would["copies"]) == (1, 1, 1)
    assert len(await hits(service, "team")) == 2
    gone = await service.ok("POST", "/banks/mine/forget", {"ids": [note[1][1]]})
    assert (gone["episodes"], gone["notes"], gone["copies"]) == (1, 1, 1)
    assert await hits(service, "team") == []
    assert [each["id"] for each in (await service.ok("GET", "/banks/team/episodes"))["episodes"]] == [other["id"]]
    assert (await service.ok("POST", "/banks/mine/forget", {"ids": note[1]}))["copies"] == 0


async def test_the_copy_goes_with_its_note_and_with_the_bank_of_its_note_and_leaves_both_alone(
    service: Service, note: tuple[str, list[str]]
) -> None:
    first = await service.ok("POST", "/banks/mine/notes/not_1/promote", {"to": "team"})
    await service.ok("POST", "/banks/team/forget", {"ids": [first["id"]]})
    assert [each["layer"] for each in await hits(service, "mine")].count("notes") == 1
    second = await service.ok("POST", "/banks/mine/notes/not_1/promote", {"to": "team"})
    assert second["id"] != first["id"]
    assert (await service.ok("POST", "/banks/mine/forget", {"ids": ["not_1"]}))["copies"] == 1
    assert await hits(service, "team") == []
    await derive(service, "mine", "not_3")
    await service.ok("POST", "/banks/mine/notes/not_3/promote", {"to": "team"})
    await service.ok("DELETE", "/banks/mine")
    assert await hits(service, "team") == []


async def test_an_agent_promotes_only_from_what_it_reads_into_what_it_writes(
    service: Service, note: tuple[str, list[str]]
) -> None:
    for name, policy in {
        "writer": {"bank": "mine", "write_banks": ["team"]}, "reader": {"banks": ["mine", "team"]},
        "stranger": {"bank": "team"},
    }.items():  # fmt: skip
        token = (await service.ok("POST", "/sessions/default/agents", {"name": name, "policy": policy}))["token"]
        got = await service.call("POST", "/banks/mine/notes/not_1/promote", {"to": "team"}, token=token)
        assert got.status == (201 if name == "writer" else 403), (name, got.body)
        if name == "writer":
            assert got.body["metadata"]["promoted"]["by"] == "writer"
    for path, body, status in (
        ("/banks/mine/notes/not_1/promote", {"to": "mine"}, 422),
        ("/banks/mine/notes/not_9/promote", {"to": "team"}, 404),
        ("/banks/mine/notes/not_1/promote", {"to": "nowhere"}, 404),
    ):
        assert (await service.call("POST", path, body)).status == status, path
    async with service.parts.store.begin_write() as tx:
        await tx.notes.retire(NoteId("not_1"), service.clock.now())
    await service.ok("POST", "/banks", {"name": "third"})
    assert (await service.call("POST", "/banks/mine/notes/not_1/promote", {"to": "third"})).status == 409
