"""`circadia`, and `python -m circadia`, which is the same."""

import importlib

from circadia.loading import ended_by_interrupts, quick_imports


def main() -> None:
    """Run the command line."""
    with ended_by_interrupts(), quick_imports():
        command_line = importlib.import_module("circadia.cli.app")
    command_line.main()


if __name__ == "__main__":
    main()
