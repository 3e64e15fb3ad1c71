"""Python runs this at the start of each program whose `PYTHONPATH` has this folder."""

import statement_recorder

statement_recorder.record_to_folder()
