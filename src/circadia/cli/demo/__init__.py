"""`circadia demo` and its parts. `worker.py` is an agent as a user would write it, and knows nothing of the rest."""

from circadia.cli.demo.command import demo
from circadia.cli.demo.wakes import app

__all__ = ["app", "demo"]
