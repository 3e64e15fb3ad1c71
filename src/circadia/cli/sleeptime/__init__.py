"""`circadia sleeptime`: what is worked out over banks while nobody waits."""

import typer

from circadia.cli.sleeptime import changes, passes, status

app = typer.Typer(no_args_is_help=True, help="Passes over memory while nobody waits: see, explain, run, undo.")
app.add_typer(status.app)
app.add_typer(passes.app)
app.add_typer(changes.app)


@app.callback()
def sleeptime() -> None:
    """Passes over memory while nobody waits: see, explain, run, undo."""
