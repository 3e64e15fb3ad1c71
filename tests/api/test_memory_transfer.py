"""Export and import over REST: what goes out comes in again, once, whole lines or nothing."""

import json
from dataclasses import replace
from typing import Any

import orjson
import pytest

from circadia.api import banks
from circadia.ids import NoteId
from circadia.records.bank import Trust
from circadia.records.block import BlockSpan
from circadia.records.conversation import shorten_name
from circadia.records.note import Note, NoteKind
from circadia.testing.clock import START
from tests.api.service import ADMIN, Answer, Service
from tests.full_disk import no_room

MAX_LINES = 1_000

Lines = list[dict[str, Any]]
FIRST = {"type": "bank", "version": 1, "name": "away", "policy": {"keep_days": 30.0, "tune_importance": True}}
"""Of an earlier version, which had one more setting."""


async def export(service: Service, bank: str) -> Lines:
    """Return the lines of an export."""
    headers = {"Authorization": f"Bearer {ADMIN}"}
    async with service.http.get(f"{service.url}/api/v1/banks/{bank}/export", headers=headers) as answer:
        assert (answer.status, answer.content_type) == (200, "application/x-ndjson")
        return [json.loads(line) for line in (await answer.read()).splitlines()]


async def bring(service: Service, bank: str, lines: Lines | bytes, *, query: str = "") -> Answer:
    """Send lines to a bank."""
    body = lines if isinstance(lines, bytes) else b"\n".join(map(orjson.dumps, lines))
    return await service.call("POST", f"/banks/{bank}/import{query}", data=body)


def said(text: str, **more: object) -> dict[str, Any]:
    """Return the line of an episode."""
    return {"type": "episode", "text": text, "speaker": "ann", **more}


async def filled(service: Service) -> None:
    """Make the bank `home`: episodes, one of them stale, notes, one of them retired, and a block of three versions."""
    await service.ok("POST", "/banks", {"name": "home", "description": "ours", "policy": {"keep_days": 30.0}})
    first = await service.ok(
        "POST", "/banks/home/episodes",
        {
            "text": "I live in Bern.", "speaker": "Ann", "conversation": "s", "importance": 0.5, "key": "k",
            "metadata": {"a": [1]},
        },
    )  # fmt: skip
    await service.ok("POST", "/banks/home/episodes", {"text": "I live in Bern.", "speaker": "Ann", "conversation": "s"})
    await service.ok(
        "POST", "/banks/home/episodes", {"text": "So do I.", "speaker": "Bob", "at": "2025-06-01T12:00:00Z"}
    )
    parts, memory = service.parts, service.parts.memory
    async with parts.store.begin_write() as tx:
        bank = await memory.banks.get(tx, "home")
        one, two = [each.id for each in await tx.episodes.find_all(bank.id)][:2]
        await memory.episodes.demote(tx, bank, one, by="pass", reason="moved", evidence="later")
        for name, retired in (("note_1", None), ("note_2", START)):
            await tx.notes.add(
                Note(
                    id=NoteId(name), number=0, bank_id=bank.id, kind=NoteKind.BELIEF, at=START, text="Both in Bern.",
                    trust=Trust.PERSON, evidence=(one, two), created_at=START, retired_at=retired,
                )
            )  # fmt: skip
    for value in ("Ann: Bern", "Ann: Basel"):
        await service.ok("PUT", "/banks/home/blocks/human", {"value": value, "description": "who they are"})
    await service.ok("POST", "/banks/home/blocks/human/undo")
    async with parts.store.begin_write() as tx:
        history = await tx.blocks.history(bank.id, "human")
        await tx.blocks.rewrite_version(replace(history[0], spans=(BlockSpan(start=5, end=9, episodes=(one,)),)))
    assert first["id"] == one


def plain(lines: Lines, names: dict[str, str]) -> Lines:
    """Return the lines after the first with other names in place of ids; evidence has no order."""
    for line in lines:
        evidence: list[str] = line.get("evidence", [])
        evidence.sort(key=lambda each: names.get(each, each))
    text = json.dumps(lines[1:])
    for old, new in names.items():
        text = text.replace(old, new)
    return json.loads(text)


def ids(lines: Lines) -> list[str]:
    """Return the ids of the lines, in order."""
    return [line["id"] for line in lines if "id" in line]


@pytest.mark.spec("MEM-16")
async def test_an_export_makes_the_same_bank_elsewhere_and_a_second_import_doubles_nothing(service: Service) -> None:
    await filled(service)
    lines = await export(service, "home")
    assert [line["type"] for line in lines] == ["bank", *["episode"] * 2, *["note"] * 2, *["block"] * 3, "end"]
    assert (lines[-1]["lines"], lines[1]["repeats"], lines[1]["stale"][0]["reason"]) == (8, 1, "moved")
    await service.call("DELETE", "/banks/home")
    brought = (await bring(service, "away", lines)).body
    assert brought == {"bank": "away", "episodes": 2, "notes": 2, "versions": 3, "known": 0}
    assert plain(await export(service, "away"), {}) == plain(lines, {})
    assert (await bring(service, "away", lines)).body == {
        **brought,
        "episodes": 0,
        "notes": 0,
        "versions": 0,
        "known": 7,
    }
    made = await service.ok("GET", "/banks/away")
    assert (made["description"], made["policy"]["keep_days"], made["episodes"]) == ("ours", 30.0, 2)
    found = await service.ok("GET", "/banks/away/search?q=who+lives+in+Bern")
    assert found["hits"][0]["text"].endswith("Bern.")


@pytest.mark.spec("MEM-16")
async def test_ids_that_another_bank_has_become_others_and_notes_and_spans_follow(service: Service) -> None:
    await filled(service)
    lines = await export(service, "home")
    assert (await bring(service, "away", lines)).body["episodes"] == 2
    copied = await export(service, "away")
    assert not set(ids(lines)) & set(ids(copied))
    assert plain(copied, dict(zip(ids(copied), ids(lines), strict=True))) == plain(lines, {})
    await service.call("DELETE", "/banks/home")
    again = (await bring(service, "away", lines)).body
    assert (again["episodes"], again["notes"], again["known"]) == (0, 0, 7)
    await service.ok("POST", "/banks/away/forget", {"speaker": "Ann"})
    history = await service.ok("GET", "/banks/away/blocks/human/history")
    assert [each["value"] for each in history["blocks"]] == ["Ann: ", "Ann: Basel", "Ann: Bern"]


@pytest.mark.spec("MEM-16")
async def test_lines_without_id_and_key_are_known_again_by_what_they_say(service: Service) -> None:
    lines = [FIRST, said("hello"), said("hello", at="2025-01-01T00:00:00Z"), said("hello", conversation="s")]
    assert (await bring(service, "away", lines)).body["episodes"] == 3
    again = (await bring(service, "away", [*lines, said("new", key="k")])).body
    assert (again["episodes"], again["known"]) == (1, 3)
    page = await service.ok("GET", "/banks/away/episodes")
    assert {each["trust"] for each in page["episodes"]} == {"external"}


@pytest.mark.spec("MEM-14", "MEM-16")
async def test_secrets_are_taken_out_of_lines_that_are_of_no_export(service: Service) -> None:
    secret = "my key is sk-" + "a1B2" * 8
    lines = [FIRST, said(secret), said(secret, key="k"), said(secret, id="epi_1")]
    for known in (0, 3):
        assert (await bring(service, "away", lines)).body["known"] == known
    page = await service.ok("GET", "/banks/away/episodes")
    assert [each["text"] for each in page["episodes"]] == ["my key is [redacted: key]"] * 2 + [secret]


@pytest.mark.spec("MEM-03", "MEM-16")
async def test_a_demotion_of_a_copy_rests_on_the_copy_of_what_shows_it(service: Service) -> None:
    await filled(service)
    old, new = [each["id"] for each in (await service.ok("GET", "/banks/home/episodes"))["episodes"]]
    for evidence in (new, "note_1"):
        await service.ok("POST", f"/banks/home/episodes/{old}/stale", {"evidence": evidence, "reason": "newer"})
    await bring(service, "away", await export(service, "home"))
    copy, theirs = (await service.ok("GET", "/banks/away/episodes"))["episodes"]
    shown = [each["evidence"] for each in copy["stale"]]
    notes = [each["id"] for each in await export(service, "away") if each["type"] == "note"]
    assert shown[1:] == [theirs["id"], notes[0]]
    await service.ok("POST", "/banks/away/forget", {"ids": [theirs["id"]]})
    left = await service.ok("GET", f"/banks/away/episodes/{copy['id']}")
    assert [each["evidence"] for each in left["stale"]] == ["later"]


@pytest.mark.spec("MEM-16", "MEM-17")
async def test_a_line_that_cannot_be_taken_is_told_by_its_number_and_nothing_of_the_call_is_written(
    service: Service,
) -> None:
    await service.ok("POST", "/banks", {"name": "away"})
    note = {
        "type": "note", "id": "n", "kind": "belief", "at": "2025-01-01T00:00:00Z", "text": "x", "trust": "agent",
        "evidence": ["epi_nowhere"], "created_at": "2025-01-01T00:00:00Z",
    }  # fmt: skip
    block = {
        "type": "block", "label": "b", "version": 1, "parent": None, "value": "xy", "limit": 5, "by": "me",
        "at": "2025-01-01T00:00:00Z",
    }  # fmt: skip
    bad: list[bytes] = [
        b'{"type": "episode", "text": "\xff", "speaker": "ann"}',
        b'{"type": "episode", "text": "cut of',
        b"[]",
        b"null",
        b'{"type": "episode", "text": "a", "speaker": "ann", "importance": NaN}',
    ]
    stale = {"by": "x", "reason": "", "evidence": "", "at": "2025-01-01T00:00:00Z", "weight": 0}
    wrong: list[dict[str, Any]] = [
        said(""), said("a", importance=1.5), said("a", at="2999-01-01T00:00:00Z"), said("a", at="2025-01-01T00:00"),
        said("a", at=5), said("a" * 100_001), said("a\0"), said("a", colour="red"), said("a", id="../x"),
        said("a", stale=[stale]), {"type": "episode", "speaker": "ann"}, {"type": "dream"}, {"text": "a"}, FIRST, note,
        {**note, "evidence": []}, {**block, "limit": 1}, {**block, "version": 2}, {**block, "parent": 1},
        {**block, "spans": [{"start": 1, "end": 3, "episodes": []}]}, {**block, "label": ""},
    ]  # fmt: skip
    bad += map(orjson.dumps, wrong)
    for line in bad:
        answer = await bring(service, "away", orjson.dumps(said("good")) + b"\n\n" + line, query="?first_line=11")
        assert answer.status in (413, 422), line[:80]
        assert answer.body["detail"].startswith("line 13"), (line[:80], answer.body)
    shown = await service.ok("GET", "/banks/away")
    assert (shown["episodes"], (await service.ok("GET", "/banks/away/blocks"))["blocks"]) == (0, [])


@pytest.mark.spec("MEM-16")
async def test_another_version_too_many_lines_and_one_of_five_megabytes_are_refused(service: Service) -> None:
    other = await bring(service, "away", [{**FIRST, "version": 2, "colour": "red"}])
    assert (other.code, "version 2" in other.body["detail"]) == ("invalid_request", True)
    many = await bring(service, "away", [FIRST, *[said("a")] * MAX_LINES])
    assert (many.code, f"{MAX_LINES} lines" in many.body["detail"]) == ("invalid_request", True)
    assert (await bring(service, "away", [FIRST, said("a" * 5_000_000)])).code == "too_large"
    assert (await bring(service, "away", [said("a")])).code == "not_found"
    assert (await service.ok("GET", "/banks"))["banks"] == []
    for body in (b"\n", b"", b"{}"):
        assert (await bring(service, "away", body)).status in (404, 422)


@pytest.mark.spec("MEM-03", "MEM-16")
async def test_an_import_rewrites_no_episode_and_no_version(service: Service) -> None:
    await filled(service)
    lines = await export(service, "home")
    changed = await bring(service, "home", [{**lines[1], "text": "I live in Basel."}])
    assert (changed.code, "never rewritten" in changed.body["detail"]) == ("conflict", True)
    block = next(line for line in lines if line["type"] == "block")
    other = await bring(service, "home", [{**block, "by": "somebody"}])
    assert (other.code, "another version 1" in other.body["detail"]) == ("conflict", True)
    assert plain(await export(service, "home"), {}) == plain(lines, {})


@pytest.mark.spec("MEM-12", "MEM-16")
async def test_a_bank_of_an_end_user_stays_theirs_unless_they_have_one(service: Service) -> None:
    first = {**FIRST, "name": "support-ann", "template": "support-{user}", "end_user": "ann"}
    await bring(service, "support-ann", [first, said("a")])
    await bring(service, "copy", [first, said("a")])
    found = {each["name"]: each["end_user"] for each in (await service.ok("GET", "/banks"))["banks"]}
    assert found == {"copy": None, "support-ann": "ann"}
    kinds = [each["data"].get("imported") for each in await service.events("bank_changed")]
    assert kinds == [{"episodes": 1, "notes": 0, "versions": 0}] * 2


@pytest.mark.spec("MEM-12", "MEM-16")
async def test_a_bank_of_one_with_a_long_name_is_found_by_that_name_wherever_it_was_brought_from(
    service: Service,
) -> None:
    for at, said_as in enumerate(
        ("u" * 201, shorten_name("v" * 201))
    ):  # as somebody writes it, and as an export has it
        first = {**FIRST, "name": f"support-{at}", "template": "support-{user}", "end_user": said_as}
        await bring(service, f"support-{at}", [first, said("a")])
        found = await service.ok("GET", f"/banks/support-%7Buser%7D?user={'uv'[at] * 201}")
        assert found["name"] == f"support-{at}"
        await service.call("DELETE", f"/banks/support-{at}")


async def test_an_export_for_which_there_is_no_room_is_told_what_to_do_and_passes_later(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(banks, "IN_MEMORY", 1_000)
    await filled(service)
    await bring(service, "home", [said("x" * 5_000, at=f"2025-01-01T00:00:0{n}Z") for n in range(5)])
    whole = await export(service, "home")
    with no_room():
        answer = await service.call("GET", "/banks/home/export")
    assert (answer.status, answer.code) == (503, "storage_unavailable")
    assert "make room there" in answer.body["detail"]
    assert len(await export(service, "home")) == len(whole)
