"""`circadia demo` and its parts. `worker.py` is an agent as a user would write it, without Circadia's modules."""

from circadia.cli.demo.command import app, demo, wakes
from circadia.cli.demo.dream import dream

__all__ = ["app", "demo", "dream", "wakes"]
