"""Copies a bank into another one, as export and import do, without a file between."""

from circadia.clock import Clock
from circadia.errors import NotFound
from circadia.memory.transfer.export import export_lines
from circadia.memory.transfer.importer import BankImporter, read_lines
from circadia.memory.transfer.lines import AnyLine, BankLine
from circadia.stores.base import Store


async def copy_bank(store: Store, importer: BankImporter, clock: Clock, name: str, copy: str, *, by: str) -> None:
    """Copy all rows that the bank has now into the bank `copy`, which is made if it is missing.

    Passes over the copy begin only when asked for. What the copy has already is skipped, so an interrupted call may be
    repeated.

    Raises:
        NotFound: there is no bank `name`.
    """
    number = 1
    async with store.begin_read() as source:
        bank = await source.banks.get_by_name(name)
        if bank is None:
            raise NotFound(f"no bank {name!r}")
        async for body in export_lines(source, bank, clock.now()):
            lines = read_lines(body, number)
            number += len(lines)
            async with store.begin_write() as tx:
                await importer.add_lines(tx, copy, [(place, _for_copy(line, name)) for place, line in lines], by=by)


def _for_copy(line: AnyLine, name: str) -> AnyLine:
    if not isinstance(line, BankLine):
        return line
    policy = line.policy.model_copy(update={"sleeptime": {**line.policy.sleeptime, "when": "manual"}})
    return line.model_copy(update={"policy": policy, "description": f"a dream over {name}"})
