"""A process that remembers, with eight writers, until it is killed; it tells on its output what was acknowledged.

Each line is the key of an episode; its text is the key and a word. The bank is made by the first that comes.
"""

import asyncio
import sys
from pathlib import Path

from circadia.clock import SystemClock, system_milliseconds
from circadia.errors import Conflict
from circadia.ids import RandomIds
from circadia.memory.banks import BankService, NewBank
from circadia.memory.episodes import EpisodeService, NewEpisode
from circadia.records.bank import Bank, Trust
from circadia.stores.base import Store
from circadia.stores.event_log import EventLog
from circadia.stores.postgres import open_postgres
from circadia.stores.signals.local import LocalSignals
from circadia.stores.sqlite import open_sqlite

WRITERS = 8
BANK = "killed"


def text_of(key: str) -> str:
    return f"episode {key} says cat"


async def main(place: str, life: str) -> None:
    """Write forever."""
    store = await (open_postgres(place) if place.startswith("postgresql") else open_sqlite(Path(place)))
    clock, ids = SystemClock(), RandomIds(system_milliseconds)
    events = EventLog(clock, LocalSignals())
    episodes = EpisodeService(clock, ids, events)
    async with store.begin_write() as tx:
        bank = await tx.banks.get_by_name(BANK)
        if bank is None:
            bank = await BankService(clock, ids, events, {}).create(tx, NewBank(name=BANK), by="test")
    await asyncio.gather(*(_write(store, episodes, bank, f"k{life}x{writer}") for writer in range(WRITERS)))


async def _write(store: Store, episodes: EpisodeService, bank: Bank, name: str) -> None:
    at = 0
    while True:
        key = f"{name}x{at}"
        new = NewEpisode(text=text_of(key), speaker="Ann", trust=Trust.PERSON, conversation=name, key=key)
        async with store.begin_write() as tx:
            await episodes.remember(tx, bank, new)
        print(key, flush=True)
        if at % 3 == 0:  # a retry of what was acknowledged stores nothing; a key in use is refused
            try:
                async with store.begin_write() as tx:
                    again = await episodes.remember(tx, bank, new)
                    assert not again.new
                    await episodes.remember(tx, bank, NewEpisode(text="x", speaker="x", trust=Trust.TOOL, key=key))
            except Conflict:
                pass
        at += 1


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2]))
