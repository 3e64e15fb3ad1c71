"""Runs tests that failed beside others again, alone: `python -m tests.again` after a run of pytest.

A suite of thousands of tests with real servers now and then meets a machine that stands still for a second. A test
that passes three times alone is told as UNSTABLE, and is to be mended: it races, or what it tests does. Any other
failure, or more than a few at once, stays one.
"""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

FEW: Final = 3
"""Failures of one run that may be chance; more are a fault."""
TIMES: Final = 3
"""Runs that each has to pass."""
_FAILED: Final = Path(".pytest_cache/v/cache/lastfailed")


def main(options: Sequence[str] = ()) -> int:
    """Run what failed last again; return zero if all of it passes each time."""
    failed = sorted(json.loads(_FAILED.read_text())) if _FAILED.exists() else []
    if not 0 < len(failed) <= FEW:
        return 1
    print(f"again, alone, {TIMES} times:", *failed, sep="\n  ", flush=True)
    for _ in range(TIMES):
        ran = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options, *failed])
        if ran.returncode:
            return 1
    print("UNSTABLE, to be mended:", *failed, sep="\n  ", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
