"""A process that asks for wakes of one agent until it is killed, and tells on its output what was decided.

Its arguments: URL of the database, what its ids end with.
"""

import asyncio
import sys

from circadia.errors import CircadiaError
from circadia.records.agent import Agent
from circadia.records.wake import Decision
from tests.wake.fleet import postgres_fleet

ASKING_AT_ONCE = 4


async def main(url: str, run: str) -> None:
    """Ask forever."""
    async with postgres_fleet(url, run) as team:
        async with team.store.begin_read() as tx:
            home = await tx.sessions.get_by_name("default")
            assert home is not None
            agents = {each.name: each for each in await tx.agents.find_by_session(home.id)}
        target = agents.pop("bob")

        async def ask(sender: Agent) -> None:
            while True:
                try:
                    wake = await team.ask(sender, target)
                except CircadiaError as error:
                    print("error", type(error).__name__, flush=True)
                    continue
                print(wake.decision.value, wake.rule, flush=True)
                if wake.decision is Decision.ADMITTED:
                    await team.sleep(target)

        await asyncio.gather(*(ask(agents[name]) for name in sorted(agents)[:ASKING_AT_ONCE]))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2]))
