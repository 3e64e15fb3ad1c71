"""`circadia banks`, `episodes` and `blocks`: searches that say why, blocks with their history, and forgetting."""

import io
import json
import re
import sys
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from circadia.cli.memory.banks import bar, format_skips
from tests.cli.terminal import refused, run
from tests.fixtures.server_process import CircadiaProcess

BAR = 16

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> Callable[[bytes], None]:
    """Return what puts bytes on standard input."""

    def put(content: bytes) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content), "utf-8"))

    return put


async def fetch(*words: str) -> Any:
    """Return the JSON that a command prints."""
    result = await run(*words, "--json")
    assert result.status == 0, result.err
    return result.json


async def told(*words: str) -> str:
    """Return what a command tells a person."""
    result = await run(*words)
    assert result.status == 0, result.err
    return result.out + result.err


@pytest.mark.spec("MEM-01", "MEM-12")
async def test_a_bank_is_made_and_listed_with_what_it_holds(operator: CircadiaProcess) -> None:
    made = await fetch("banks", "add", "first", "--description", "ours", "--hot-edits", "--keep-days", "30")
    assert (made["policy"]["hot_edits"], made["policy"]["keep_days"], made["policy"]["mission"]) == (True, 30.0, "")
    assert "is stored in first" in await told(
        "episodes", "add", "first", "The release is on Friday.", "--speaker", "ann"
    )
    line = next(line for line in (await told("banks")).splitlines() if line.startswith("first"))
    assert line.split()[1] == "1"
    assert [each["episodes"] for each in (await fetch("banks"))["banks"] if each["name"] == "first"] == [1]
    refused(await run("banks", "add", "first"), 5, "there is a bank 'first' already")
    refused(await run("banks", "add", "Not Good"), 2, "bank name")
    assert "no bank" in await told("banks", "--template", "t-{user}")


@pytest.mark.spec("MEM-36")
async def test_a_mission_is_given_shown_and_changed(operator: CircadiaProcess) -> None:
    made = await fetch("banks", "add", "firm", "--mission", "A law firm. Remember deadlines.", "--keep-days", "30")
    assert made["policy"]["mission"] == "A law firm. Remember deadlines."
    assert await told("banks", "mission", "firm") == "A law firm. Remember deadlines.\n"
    changed = await fetch("banks", "mission", "firm", "A law firm. Remember deadlines, never health.")
    assert (changed["policy"]["mission"][-13:], changed["policy"]["keep_days"]) == ("never health.", 30.0)
    assert await told("banks", "mission", "firm", "") == "firm has no mission\n"
    refused(await run("banks", "mission", "firm", "x" * 501), 2, "mission")


@pytest.mark.spec("MEM-05")
async def test_a_search_shows_why_each_hit_was_found_and_keeps_to_its_filters(operator: CircadiaProcess) -> None:
    await fetch("banks", "add", "search")
    await fetch(
        "episodes",
        "add",
        "search",
        "Ann has moved to Porto.",
        "--speaker",
        "bob",
        "--trust",
        "external",
        "--conversation",
        "s",
    )
    await fetch(
        "episodes", "add", "search", "Porto is nice.", "--speaker", "ann", "--kind", "turn", "--at", "2025-01-01T00:00Z"
    )
    shown = await told("banks", "search", "search", "did ann move to Porto", "--recency", "0.1")
    head, *lines = shown.splitlines()
    assert head.split()[:3] == ["score", "why", "words"]
    assert {"speaker", "recency", "trust"} <= set(head.split())
    assert ["Porto" in line for line in lines[:2]] == [True, True]
    assert "█ words" in lines[2]
    for words, found in (
        (("--trust", "external"), ["Ann has moved to Porto."]),
        (("--trust", "person"), ["Porto is nice."]),
        (("--speaker", "ann"), ["Porto is nice."]),
        (("--conversation", "s"), ["Ann has moved to Porto."]),
        (("--kind", "turn"), ["Porto is nice."]),
        (("--until", "2025-06-01"), ["Porto is nice."]),
        (("--layer", "notes"), []),
    ):
        hits = (await fetch("banks", "search", "search", "Porto", *words))["hits"]
        assert [each["text"] for each in hits] == found, words
    assert "nothing found" in await told("banks", "search", "search", "Porto", "--speaker", "nobody")
    refused(await run("banks", "search", "serch", "Porto"), 4, "did you mean 'search'?")
    refused(await run("banks", "search", "search", "Porto", "--kind", "rumour"), 2, "kind")


@pytest.mark.spec("MEM-32")
async def test_a_search_and_a_context_as_of_a_date_and_what_is_no_longer_valid(
    operator: CircadiaProcess, tmp_path: Path
) -> None:
    moved = {"by": "me", "reason": "she moved", "evidence": "a call", "at": "2025-08-01T00:00:00Z", "weight": 0.3}
    lines: list[dict[str, object]] = [{"type": "bank", "version": 1, "name": "dated"}]
    for text, at, stale in (("Ann lives in Faro.", "2025-01-01", [moved]), ("Ann lives in Porto.", "2025-07-01", [])):
        lines.append({"type": "episode", "speaker": "ann", "text": text, "at": f"{at}T00:00:00Z", "stale": stale})
    file = tmp_path / "dated.jsonl"
    file.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    await fetch("banks", "import", str(file))
    faro = "Ann lives in Faro."
    for when, found in (("2025-06-01", {faro: False}), ("2025-07-02", {faro: False, "Ann lives in Porto.": False})):
        hits = (await fetch("banks", "search", "dated", "where does Ann live", "--as-of", when))["hits"]
        assert {hit["text"]: hit["superseded"] for hit in hits} == found
        fitting = (await fetch("banks", "context", "dated", "where does Ann live", "--as-of", when))["fitting"]
        assert [(text in fitting) for text in found] == [True] * len(found)
        assert f"Today is {date.fromisoformat(when):%A}, {when}." in fitting
    shown = await told("banks", "search", "dated", "where does Ann live")
    assert "Ann lives in Faro. (no longer valid)" in " ".join(shown.split())
    refused(await run("banks", "search", "dated", "Ann", "--as-of", "2999-01-01"), 2, "in the future")


@pytest.mark.spec("MEM-40")
async def test_a_search_and_a_context_keep_to_tags_and_metadata(operator: CircadiaProcess) -> None:
    await fetch("banks", "add", "tagged")
    for text, metadata in (("The red door is 12.", {"tags": ["red"], "n": 1}), ("The blue door is 34.", {"n": 2})):
        stored = await fetch(
            "episodes", "add", "tagged", text, "--metadata", json.dumps(metadata), "--expires", "2999-01-01T00:00Z"
        )
        assert (stored["metadata"], stored["expires_at"]) == (metadata, "2999-01-01T00:00:00Z")
    for where, found in (({"tags": "red"}, ["red"]), ({"n": {"gt": 1}}, ["blue"]), ({"n": {"not": [1, 2]}}, [])):
        hits = (await fetch("banks", "search", "tagged", "door", "--where", json.dumps(where)))["hits"]
        assert [hit["text"].split()[1] for hit in hits] == found
        fitting = (await fetch("banks", "context", "tagged", "door", "--where", json.dumps(where)))["fitting"]
        assert [word for word in ("red", "blue") if word in fitting] == found
    for bad in ("tags", "[]", '{"n": {"near": 1}}'):
        refused(
            await run("banks", "search", "tagged", "door", "--where", bad), 2, "filter" if "near" in bad else "JSON"
        )


async def test_a_bar_is_as_long_as_the_score_beside_the_best_with_a_colour_for_each_part() -> None:
    made = bar({"words": 0.5, "meaning": 0.25, "weight": 0.5}, 0.75)
    assert len(made.plain) == BAR // 2
    assert [str(span.style) for span in made.spans] == ["green", "cyan"]
    assert bar({}, 1.0).plain == ""


async def test_on_a_narrow_terminal_ids_and_texts_are_in_one_piece(
    operator: CircadiaProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fetch("banks", "add", "narrow")
    text = "Ann has moved to Porto in the summer."
    made = await fetch(
        "episodes", "add", "narrow", text, "--speaker", "ann-of-the-long-name", "--conversation", "s" * 40
    )
    monkeypatch.setenv("NO_COLOR", "1")
    for words in (("banks", "search", "narrow", "moved to Porto"), ("episodes", "narrow")):
        for columns in ("80", "200"):
            monkeypatch.setenv("COLUMNS", columns)
            out = (await run(*words, watched=True)).out
            lines = re.sub(r"\x1b\[[0-9;]*m", "", out).splitlines()
            assert max(map(len, lines)) <= int(columns)
            assert [line for line in lines if made["id"] in line], words
            assert [line for line in lines if text in line], words


async def test_an_episode_is_shown_with_all_that_is_known_of_it(operator: CircadiaProcess) -> None:
    await fetch("banks", "add", "shown")
    assert "no episode" in await told("episodes", "shown")
    made = await fetch("episodes", "add", "shown", "one\x1b[2J", "--importance", "0.5", "--key", "k")
    assert (await fetch("episodes", "add", "shown", "one\x1b[2J", "--importance", "0.5", "--key", "k"))["new"] is False
    await operator.call("POST", f"/banks/shown/episodes/{made['id']}/stale", {"evidence": "e", "reason": "old"})
    one = await told("episodes", "show", "shown", made["id"])
    assert "one\\x1b[2J" in one
    assert "stale × 0.3 by operator: old" in one
    assert "(stale × 0.3)" in await told("episodes", "shown")
    assert (await fetch("episodes", "show", "shown", made["id"]))["importance"] == 0.5
    refused(await run("episodes", "show", "shown", "epi_0"), 4, "no episode")


@pytest.mark.spec("MEM-17")
async def test_what_cannot_be_remembered_is_refused(operator: CircadiaProcess, typed: Callable[[bytes], None]) -> None:
    await fetch("banks", "add", "bad")
    typed("Größe\n".encode())
    assert (await fetch("episodes", "add", "bad", "-"))["text"] == "Größe\n"
    typed(b"not \xff UTF-8")
    refused(await run("episodes", "add", "bad", "-"), 2, "not text")
    typed(b"a" * 5_000_000)
    refused(await run("episodes", "add", "bad", "-"), 2, "over")
    refused(await run("episodes", "add", "bad", "  "), 2, "needs a text")
    refused(await run("episodes", "add", "bad", "a", "--importance", "nan"), 2, "importance")
    refused(await run("episodes", "add", "bad", "a", "--at", "2999-01-01T00:00:00Z"), 2, "in the future")
    assert len((await fetch("episodes", "bad"))["episodes"]) == 1


@pytest.mark.spec("MEM-09", "MEM-11")
async def test_a_block_is_written_compared_and_taken_back(
    operator: CircadiaProcess, typed: Callable[[bytes], None]
) -> None:
    await fetch("banks", "add", "blocks")
    assert "no block" in await told("blocks", "blocks")
    await fetch("blocks", "write", "blocks", "human", "Ann lives in Rome.\nShe has a cat.", "--description", "whom")
    typed(b"Ann lives in Porto.\nShe has a cat.")
    await told("blocks", "write", "blocks", "human", "-", "--expected-version", "1", "--why", "moved")
    refused(await run("blocks", "write", "blocks", "human", "x", "--expected-version", "1"), 5, "version 2")
    refused(await run("blocks", "write", "blocks", "human", "--limit", "5"), 2, "shorten it")
    assert "34/5000" in await told("blocks", "blocks")
    assert "moved" in await told("blocks", "history", "blocks", "human")
    lines = (await told("blocks", "diff", "blocks", "human")).splitlines()
    assert lines[:2] == ["--- human 1", "+++ human 2"]
    assert lines[3:] == ["-Ann lives in Rome.", "+Ann lives in Porto.", " She has a cat."]
    assert "version 3: back to version 1" in await told("blocks", "undo", "blocks", "human")
    assert "the texts are the same" in await told("blocks", "diff", "blocks", "human", "1", "3")
    assert (await fetch("blocks", "diff", "blocks", "human", "2", "3"))["diff"][-2] == "+Ann lives in Rome."
    assert (await fetch("blocks", "undo", "blocks", "human", "--to", "2"))["version"] == 4
    refused(await run("blocks", "diff", "blocks", "human", "9"), 4, "it has 1 to 4")
    refused(await run("blocks", "undo", "blocks", "nobody"), 4, "'nobody'")
    await fetch("blocks", "write", "blocks", "human", "--no-pinned", "--read-only")
    (block,) = await fetch("blocks", "blocks")
    assert (block["pinned"], block["read_only"], block["version"]) == (False, True, 5)


async def test_a_block_is_written_from_a_file(operator: CircadiaProcess) -> None:
    await fetch("banks", "add", "files")
    with open("human.txt", "w", encoding="utf-8") as file:
        file.write("from a file")
    assert (await fetch("blocks", "write", "files", "human", "--file", "human.txt"))["value"] == "from a file"
    refused(await run("blocks", "write", "files", "human", "x", "--file", "human.txt"), 2, "not both")
    refused(await run("blocks", "write", "files", "human", "--file", "nowhere.txt"), 2, "cannot read")


@pytest.mark.spec("MEM-13")
async def test_a_context_is_shown_in_its_two_parts(operator: CircadiaProcess) -> None:
    await fetch("banks", "add", "context")
    await fetch("blocks", "write", "context", "human", "Ann lives in Porto.")
    await fetch("episodes", "add", "context", "The cat is called Tom.")
    system, _, turn = (await told("banks", "context", "context", "what is the cat called")).partition(
        "behind the newest user turn"
    )
    assert "Ann lives in Porto." in system
    assert "Tom" in turn
    assert "no room for the blocks human" in await told("banks", "context", "context", "--stable-tokens", "1")
    assert (await fetch("banks", "context", "context"))["fitting"] == ""


@pytest.mark.spec("MEM-03")
async def test_forget_tells_what_would_go_and_asks_first(
    operator: CircadiaProcess, typed: Callable[[bytes], None]
) -> None:
    await fetch("banks", "add", "forget")
    for speaker in ("ann", "bob"):
        await fetch("episodes", "add", "forget", f"said by {speaker}", "--speaker", speaker)
    refused(await run("banks", "forget", "forget"), 2, "say what to forget")
    refused(await run("banks", "forget", "forget", "--speaker", "ann", "--json"), 2, "--yes")
    assert "nothing to forget" in await told("banks", "forget", "forget", "--speaker", "nobody")
    typed(b"n\n")
    result = await run("banks", "forget", "forget", "--speaker", "ann")
    assert (result.status, "would delete 1 episodes" in result.err) == (1, True)
    assert len((await fetch("episodes", "forget"))["episodes"]) == 2
    typed(b"y\n")
    assert "deleted 1 episodes" in await told("banks", "forget", "forget", "--speaker", "ann")
    (left,) = (await fetch("episodes", "forget"))["episodes"]
    assert left["text"] == "said by bob"
    assert (await fetch("banks", "forget", "forget", "--id", left["id"], "--yes"))["episodes"] == 1


@pytest.mark.spec("MEM-39")
async def test_a_person_sees_and_restores_what_an_agent_has_forgotten(operator: CircadiaProcess) -> None:
    made = await fetch("agents", "add", "keeper", "--set", "bank=kept", "--set", "preset=personal")
    said = await fetch("episodes", "add", "kept", "I live in Porto.", "--speaker", "user")
    call = {
        "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": "memory_forget", "arguments": {"episode": said["id"]}},
    }  # fmt: skip
    headers = {"authorization": f"Bearer {made['token']}", "accept": "application/json, text/event-stream"}
    async with aiohttp.ClientSession() as http, http.post(f"{operator.url}/mcp", json=call, headers=headers) as answer:
        assert said["id"] in await answer.text()
    refused(await run("episodes", "show", "kept", said["id"]), 4, "no episode")
    line = next(line for line in (await told("episodes", "forgotten", "kept")).splitlines() if said["id"] in line)
    assert "keeper" in line
    assert "in kept again" in await told("episodes", "restore", "kept", said["id"])
    assert "no forgotten episode" in await told("episodes", "forgotten", "kept")
    assert (await fetch("episodes", "show", "kept", said["id"]))["text"] == "I live in Porto."
    refused(await run("episodes", "restore", "kept", said["id"]), 4, "7 days")


@pytest.mark.spec("MEM-12", "MEM-03")
async def test_a_bank_is_deleted_after_it_was_asked_for_and_a_persons_is_named_by_its_template(
    operator: CircadiaProcess, typed: Callable[[bytes], None]
) -> None:
    made = await operator.call(
        "POST", "/sessions/default/agents", {"name": "desk", "policy": {"bank": "desk-{user}", "multi_user": True}}
    )
    for user in ("Ann", "bob"):
        added = await run(
            "episodes", "add", "desk-{user}", f"{user} was here", "--user", user, "--token", made["token"], "--json"
        )
        assert added.status == 0, added.err
    mine = ("desk-{user}", "--user", "Ann")
    await fetch("blocks", "write", "desk-{user}", "human", "She is Ann.", "--user", "Ann")
    assert "She is Ann." in await told("blocks", *mine)
    assert "She is Ann." in await told("blocks", "history", "desk-{user}", "human", "--user", "Ann")
    assert "She is Ann." in await told("banks", "context", *mine)
    assert "Ann was here" in await told("banks", "search", "desk-{user}", "who was here", "--user", "Ann")
    exported = (await run("banks", "export", *mine)).out
    assert ("Ann was here" in exported, "bob was here" in exported) == (True, False)
    (episode,) = (await fetch("episodes", *mine))["episodes"]
    refused(await run("episodes", "show", "desk-bob", episode["id"]), 4, "no episode")
    refused(await run("banks", "delete", *mine, "--json"), 2, "--yes")
    refused(await run("banks", "delete", "desk-{user}"), 2, "takes an end user")
    refused(await run("banks", "delete", "desk-bob", "--user", "Ann", "--yes"), 2, "not a template")
    typed(b"n\n")
    result = await run("banks", "delete", *mine)
    assert (result.status, "with 1 episodes" in result.err) == (1, True)
    typed(b"y\n")
    assert "deleted bank desk-{user} of Ann" in await told("banks", "delete", *mine)
    banks = (await fetch("banks", "--template", "desk-{user}"))["banks"]
    assert [each["end_user"] for each in banks] == ["bob"]
    await fetch("banks", "delete", "desk-bob", "--yes")
    refused(await run("episodes", "desk-bob"), 4, "no bank 'desk-bob'")


@pytest.mark.spec("MEM-18")
async def test_turns_that_were_left_out_are_listed_by_why() -> None:
    assert format_skips({"no_content": 4, "importance": 12}) == "12 importance, 4 no_content"
    assert format_skips({}) == "0"
