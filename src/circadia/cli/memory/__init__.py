"""`circadia memory`: what agents remember."""

import typer

from circadia.cli.memory import banks, blocks, episodes, transfer

app = typer.Typer(no_args_is_help=True, help="What agents remember: banks with episodes, notes and blocks.")
app.add_typer(banks.app)
app.add_typer(episodes.app)
app.add_typer(blocks.app)
app.add_typer(transfer.app)


@app.callback()
def memory() -> None:
    """What agents remember: banks with episodes, notes and blocks."""
