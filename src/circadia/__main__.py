"""`circadia`, and `python -m circadia`, which is the same."""

import importlib

from circadia.cli.terminal.lazy_imports import end_on_interrupt, load_when_used, quick_imports


def main() -> None:
    load_when_used()
    with end_on_interrupt(), quick_imports():
        command_line = importlib.import_module("circadia.cli.app").main
    command_line()


if __name__ == "__main__":
    main()
