"""Lookups of ready answers among writes by another process' services, with what must come of each."""

from pathlib import Path

import pytest

from benchmarks.interleaved import InterleavedOperations
from circadia.memory.embedding.bundled import BundledEmbedder
from circadia.stores.base import Store
from circadia.stores.postgres import open_postgres
from circadia.stores.sqlite import open_sqlite


@pytest.mark.spec("ANS-04", "ANS-20")
async def test_among_writes_of_another_process_no_lookup_serves_a_void_answer(
    either_store: Store, store_url: str | None, tmp_path: Path
) -> None:
    other = await (open_sqlite(tmp_path / "circadia.db") if store_url is None else open_postgres(store_url))
    embedder = BundledEmbedder()
    await embedder.word_vectors()
    told = await (await InterleavedOperations.made(either_store, other, embedder, 20)).run(1_000, related=8, judged=25)
    await other.close()
    assert told.stale == 0
    assert told.void > 50, "else nothing is shown"
    assert told.found > 50, "else nothing is served at all"
