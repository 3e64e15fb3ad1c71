"""`circadia memory`: what agents remember."""

import typer

from circadia.cli.memory import banks, blocks, episodes, transfer
from circadia.cli.terminal.lazy_commands import add_lazy_commands, command

app = add_lazy_commands(
    typer.Typer(no_args_is_help=True, help="Manage what agents remember: banks with episodes, notes and blocks."),
    command(
        "export", "Write a bank as JSON Lines: its episodes, notes and blocks with all versions.", lambda: transfer.app
    ),
    command(
        "import",
        "Import episodes, notes and blocks into a bank. Creates the bank if needed and stores nothing twice.",
        lambda: transfer.app,
    ),
)
app.add_typer(banks.app)
app.add_typer(episodes.app)
app.add_typer(blocks.app)


@app.callback()
def memory() -> None:
    """Manage what agents remember: banks with episodes, notes and blocks."""
