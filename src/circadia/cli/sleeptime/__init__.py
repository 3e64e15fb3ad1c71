"""`circadia sleeptime`: passes over memory banks while nobody waits."""

import typer

from circadia.cli.sleeptime import changes, passes, status

app = typer.Typer(no_args_is_help=True, help="Inspect, explain, run and undo passes over memory.")
app.add_typer(status.app)
app.add_typer(passes.app)
app.add_typer(changes.app)


@app.callback()
def sleeptime() -> None:
    """Inspect, explain, run and undo passes over memory."""
