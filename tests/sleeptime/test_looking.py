"""What a page of a pass reads of its bank: each episode once, however many steps look at it."""

import contextlib
import threading
from collections.abc import AsyncGenerator

import pytest

from circadia.ids import EpisodeId
from circadia.memory import languages
from circadia.sleeptime.engine import operation_threads
from circadia.sleeptime.engine.operation_threads import CachedBankReader
from circadia.stores.base import Store, Tx
from tests.sleeptime.stand import Stand


class ReadCountingStore:
    """A store of which is counted how often it is read."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.reads = 0

    @contextlib.asynccontextmanager
    async def begin_read(self) -> AsyncGenerator[Tx]:
        self.reads += 1
        async with self._store.begin_read() as tx:
            yield tx


@pytest.mark.spec("SLEEP-43")
async def test_steps_of_a_page_read_each_episode_once(stand: Stand) -> None:
    before = await stand.said("I live in Porto.", "I like figs.")
    page = await stand.said("I moved to Faro.")
    store = ReadCountingStore(stand.store)
    look = CachedBankReader(store, stand.bank, None, page)  # pyright: ignore[reportArgumentType] # it only reads
    ids = [each.id for each in (*page, *before)]
    assert list(await look.fetch_episodes(ids[:1])) == ids[:1]
    assert store.reads == 0
    for wanted in (ids, ids[::-1], [*ids[1:], EpisodeId("epi_none")]):
        assert await look.fetch_episodes(wanted) == {each.id: each for each in (*page, *before) if each.id in wanted}
        assert list(await look.fetch_episodes(wanted)) == [each for each in wanted if each in ids]
    assert store.reads == 3  # once for all that there are; what there is not may have come meanwhile


async def test_what_is_kept_for_a_page_is_bounded_and_the_page_always_is(
    stand: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operation_threads, "KNOWN", 2)
    before = await stand.said("I live in Porto.", "I like figs.")
    page = await stand.said("I moved to Faro.")
    look = CachedBankReader(stand.store, stand.bank, None, page)
    for _ in range(2):
        assert len(await look.fetch_episodes([each.id for each in (*before, *page)])) == 3
        assert set(look.cached_episodes) == {page[0].id}
    assert len(await look.fetch_episodes([before[0].id])) == 1
    assert set(look.cached_episodes) == {page[0].id, before[0].id}


@pytest.mark.spec("SLEEP-43")
async def test_the_first_look_for_what_is_related_loads_the_languages_beside_the_event_loop(
    stand: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    (said,) = await stand.said("I live in Porto.")
    threads: list[threading.Thread] = []
    load = languages.load

    def watched() -> None:
        threads.append(threading.current_thread())
        load()

    monkeypatch.setattr(languages, "load", watched)
    languages._identifier.cache_clear()  # pyright: ignore[reportPrivateUsage]
    look = CachedBankReader(stand.store, stand.bank, stand.memory.retrieval, ())
    assert await look.search_related(["Where do I live?"], before=9, limit=1) == [[said]]
    assert len(threads) == 1
    assert threads[0] is not threading.main_thread()
