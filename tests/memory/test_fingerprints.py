"""What a text is recognised by, and what that costs."""

import json
import random
import time
from datetime import UTC, datetime, timedelta

import pytest

from circadia.memory.capture.attribution import RecentTexts
from circadia.memory.capture.fingerprints import (
    Fingerprints,
    fingerprints,
    pack_hashes,
    remove_known_lines,
    unpack_hashes,
)
from circadia.records.bank import Trust
from circadia.records.episode import Provenance

NOW = datetime(2026, 11, 23, tzinfo=UTC)
LONGEST_STEP_SECONDS = 0.05


def words(number: int, seed: int = 1) -> str:
    letters = random.Random(seed)
    return " ".join("".join(letters.choices("abcdefghijklmnop", k=letters.randint(2, 9))) for _ in range(number))


def row(prints: Fingerprints, number: int = 1, minutes: int = 60) -> Provenance:
    return Provenance(
        number=number, scope="s", speaker="tool", trust=Trust.TOOL, fingerprints=pack_hashes(prints.hashes),
        whole=prints.whole, expires_at=NOW + timedelta(minutes=minutes),
    )  # fmt: skip


@pytest.mark.spec("MEM-14")
@pytest.mark.parametrize("size", [100, 100_000, 8_000_000], ids=lambda size: f"{size} characters")
def test_a_turn_is_compared_with_all_that_was_said_without_keeping_the_loop_busy(size: int) -> None:
    text = words(1_400_000 if size > 1_000_000 else 20_000)[:size]
    texts = RecentTexts()
    texts.add([row(fingerprints(words(5_000, seed)), seed) for seed in range(2, 20)])
    texts.add([row(fingerprints(text), 20)])  # all together a quarter of a million fingerprints
    began = time.thread_time()
    prints = fingerprints(text)
    owners = texts.owners(prints)
    assert time.thread_time() - began < LONGEST_STEP_SECONDS
    assert len(prints.hashes) < 100_000
    assert (owners >= 0).all()


@pytest.mark.spec("MEM-14")
@pytest.mark.parametrize("text", ["\ufdfa" * 200_000, "Die Straße " * 18_000, "&amp;%C3%A4" * 18_000], ids=len)
def test_a_turn_in_letters_that_stand_for_many_does_not_keep_the_loop_busy_either(text: str) -> None:
    fingerprints("Straße")
    began = time.thread_time()
    fingerprints(text)
    assert time.thread_time() - began < LONGEST_STEP_SECONDS


@pytest.mark.spec("MEM-14")
def test_of_many_texts_the_newest_are_known_for_their_time() -> None:
    texts = RecentTexts()
    said = [fingerprints(words(12, seed)) for seed in range(3_000)]
    for number, prints in enumerate(said, 1):
        texts.add([row(prints, number)])
    assert texts.find_whole(said[-1], NOW) is not None
    assert texts.find_whole(said[-1], NOW + timedelta(hours=1)) is None
    assert texts.find_whole(said[0], NOW) is None
    assert len(texts.rows) <= 2_000
    assert (texts.owners(said[-1]) >= 0).all()


@pytest.mark.spec("SLEEP-63")
def test_the_lines_that_stand_in_a_text_are_taken_out_of_another() -> None:
    prompt = "You are bob. It is late.\n\nWater the plants on the roof.\n- Ok?\n---\nBudgets left: none at all today."
    known = unpack_hashes(pack_hashes(fingerprints(prompt).hashes))
    assert remove_known_lines(f"My own words come first.\n{prompt}\nAnd mine are the last ones.", known) == (
        "My own words come first.\nAnd mine are the last ones."
    )
    assert remove_known_lines(json.dumps(prompt), known) == ""
    assert remove_known_lines("Nothing of it stands here.", known) == "Nothing of it stands here."
