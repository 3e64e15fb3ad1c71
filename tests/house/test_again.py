"""A test that fails beside others passes only if it does so three times alone."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FIRST_FAILS = """
from pathlib import Path
def test_it():
    runs = Path("runs")
    runs.write_text(runs.read_text() + "x" if runs.exists() else "x")
    assert len(runs.read_text()) not in {failing}
"""


def run(folder: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", *argv]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, env={"PYTHONPATH": str(ROOT)})


def failed_then_again(folder: Path, text: str) -> subprocess.CompletedProcess[str]:
    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / "test_one.py").write_text(text)
    assert run(folder, "pytest", "-q").returncode == 1
    return run(folder, "tests.again")


def test_what_passes_three_times_alone_is_told_as_unstable(tmp_path: Path) -> None:
    ran = failed_then_again(tmp_path, FIRST_FAILS.replace("{failing}", "{1}"))
    assert ran.returncode == 0, ran.stdout
    assert "UNSTABLE" in ran.stdout
    assert "test_one.py::test_it" in ran.stdout
    assert (tmp_path / "runs").read_text() == "xxxx"


@pytest.mark.parametrize("failing", ["{1, 2}", "{1, 4}"])
def test_what_fails_once_more_alone_has_failed(tmp_path: Path, failing: str) -> None:
    ran = failed_then_again(tmp_path, FIRST_FAILS.replace("{failing}", failing))
    assert ran.returncode == 1
    assert "UNSTABLE" not in ran.stdout


def test_many_failures_are_not_tried_again(tmp_path: Path) -> None:
    text = "import pytest\n@pytest.mark.parametrize('n', range(4))\ndef test_it(n):\n    assert False\n"
    ran = failed_then_again(tmp_path, text)
    assert (ran.returncode, ran.stdout) == (1, "")
