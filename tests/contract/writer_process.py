"""A process that writes to a store until it is killed, and tells on its output what was acknowledged.

Each line is the generation that the agent has; its change and an event are one block.
"""

import asyncio
import sys
from dataclasses import replace
from pathlib import Path

from circadia.stores.base import Store
from circadia.stores.postgres import open_postgres
from circadia.stores.sqlite import open_sqlite
from tests.contract.rows import agent, event

WRITERS = 8


async def main(dialect: str, place: str) -> None:
    """Write forever."""
    store = await open_sqlite(Path(place)) if dialect == "sqlite" else await open_postgres(place)
    await asyncio.gather(*(_write(store) for _ in range(WRITERS)))


async def _write(store: Store) -> None:
    while True:
        async with store.begin_write() as tx:
            found = await tx.agents.get(agent().id)
            assert found is not None
            generation = found.generation + 1
            await tx.agents.save_sleep_state(
                replace(found, generation=generation, asleep=not found.asleep), from_generation=found.generation
            )
            await tx.events.add([event(generation)])
        print(generation, flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2]))
