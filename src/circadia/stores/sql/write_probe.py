"""A row that is written only to find out whether the database takes writes."""

import os
from collections.abc import Callable
from typing import Final

from sqlalchemy import Column, Connection, Integer, LargeBinary, Table, bindparam, update

from circadia.stores.sql.schema import metadata

SMALL_BYTES: Final = 1
LARGE_BYTES: Final = 262_144
"""More than nearly any write takes. What a failed write leaves of a full disk is enough for a small one."""

write_probe = Table(
    "write_probe",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("filling", LargeBinary, nullable=False),
)

_FILL: Final = update(write_probe).values(filling=bindparam("bytes"))


def fill(size: int) -> Callable[[Connection], None]:
    """Return the work that writes `size` bytes, which no database can compress."""

    def work(connection: Connection) -> None:
        connection.execute(_FILL, {"bytes": os.urandom(size)})

    return work
