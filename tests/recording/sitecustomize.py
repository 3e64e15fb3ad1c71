"""Python runs this at the start of each program whose `PYTHONPATH` has this folder: tests see into what they start."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))  # where `tests` is

from tests.recording.statement_recorder import record_to_folder

sys.path.pop(0)
record_to_folder()
