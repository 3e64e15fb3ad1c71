"""What is known of whose word texts are costs little, however much of it there is."""

import random
import time
from datetime import UTC, datetime, timedelta

from circadia.memory.capture.attribution import RecentTexts
from circadia.memory.capture.fingerprints import fingerprints, pack_hashes
from circadia.records.bank import Trust
from circadia.records.episode import Provenance

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def said(number: int) -> str:
    return random.Random(number).randbytes(250).hex(" ", 4)


def row(number: int) -> Provenance:
    prints = fingerprints(said(number))
    return Provenance(
        number=number + 1,
        scope="s",
        speaker=f"agent{number}",
        trust=Trust.AGENT,
        fingerprints=pack_hashes(prints.hashes),
        whole=prints.whole,
        expires_at=NOW + timedelta(hours=1),
    )


def test_to_add_a_text_takes_a_fraction_of_a_millisecond_and_each_is_found_until_it_is_too_old() -> None:
    rows = [row(number) for number in range(1_500)]
    texts = RecentTexts()
    began = time.process_time()
    for each in rows:
        texts.add([each])
    assert time.process_time() - began < 0.5, "it took 1 s where all was put in order for each"
    for number in (1_499, 1_400, 1_000, 800):
        prints = fingerprints(said(number))
        found = texts.find_whole(prints, NOW)
        assert found is not None
        owners = texts.owners(prints)
        assert {texts.rows[int(owner)].speaker for owner in owners if owner >= 0} == {f"agent{number}"}
    assert (texts.owners(fingerprints(said(5_000))) < 0).all()
