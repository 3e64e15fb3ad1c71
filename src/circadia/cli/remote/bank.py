"""Names of banks as people type them."""

from collections.abc import Sequence
from typing import Annotated, Any

import typer


def _complete_command(ctx: typer.Context, incomplete: str) -> Sequence[str]:
    commands: dict[str, Any] = getattr(ctx.command, "commands", {})
    return [name for name in commands if name.startswith(incomplete)]


_TO_LIST: Any = typer.Argument(metavar="BANK", help="Bank or template name.", autocompletion=_complete_command)
"""The argument of a list, in whose place a shell completes the commands below the list."""

Bank = Annotated[str, typer.Argument(metavar="BANK", help="Bank or template name.")]
BankToList = Annotated[str, _TO_LIST]
BankToListIfAny = Annotated[str | None, _TO_LIST]
User = Annotated[
    str | None, typer.Option("--user", metavar="NAME", help="End user, if BANK is a template such as support-{user}.")
]
