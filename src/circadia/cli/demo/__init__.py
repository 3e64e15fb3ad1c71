"""`circadia demo` and its parts. `worker.py` is an agent as a user would write it, and knows nothing of the rest."""

import typer

from circadia.cli.demo.command import demo
from circadia.cli.demo.wakes import wakes

__all__ = ["app", "demo"]

app = typer.Typer(invoke_without_command=True)
app.callback(epilog="Example: circadia demo --seconds 30")(demo)
app.command(epilog="Example: circadia demo wakes --pause-seconds 0")(wakes)
