"""`circadia`, but it never gets on after all of a spool file is in the database, and says so by making a file.

Its arguments: the file, then those of `circadia`.
"""

import asyncio
import sys
from pathlib import Path

from circadia.cli.app import main
from circadia.gateway.accounting.write_behind import BacklogSpool


def stop_before_removal(file: Path) -> None:
    def stop(*_: object) -> None:
        file.touch()
        raise asyncio.CancelledError

    setattr(BacklogSpool, "remove", stop)  # noqa: B010 - its type is another


if __name__ == "__main__":
    stop_before_removal(Path(sys.argv[1]))
    main(sys.argv[2:])
