"""The page on running Circadia as a service: its units are what systemd takes, and its text is what `deploy` has."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fixtures.database_file import put_database
from tests.house.tree import DOCS, ROOT, blocks

PAGE = DOCS / "operations" / "service.md"
UNITS = ROOT / "deploy" / "systemd"
PROGRAM = "/opt/circadia/bin/circadia"


def verify(folder: Path, *names: str) -> tuple[int, str]:
    """Return the exit status of `systemd-analyze verify` and what it says; it says nothing of units without a flaw."""
    program = shutil.which("systemd-analyze")
    assert program is not None, "run `make services`"
    done = subprocess.run([program, "verify", *(folder / name for name in names)], capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def put_units(folder: Path) -> list[str]:
    """Copy the units with the program of this environment, since systemd looks whether it is there."""
    own = Path(sys.executable).with_name("circadia")
    for unit in UNITS.iterdir():
        (folder / unit.name).write_text(unit.read_text("utf-8").replace(PROGRAM, str(own)), "utf-8")
    return sorted(unit.name for unit in UNITS.iterdir())


@pytest.mark.spec("SHIP-13")
def test_systemd_finds_no_flaw_in_the_units(tmp_path: Path) -> None:
    names = put_units(tmp_path)
    assert names == ["circadia-backup.service", "circadia-backup.timer", "circadia.service"]
    assert verify(tmp_path, *names) == (0, "")
    text = (tmp_path / "circadia.service").read_text("utf-8")
    (tmp_path / "flawed.service").write_text(text.replace("LimitNOFILE=", "LimitNOFILES="), "utf-8")
    assert "Unknown key" in verify(tmp_path, "flawed.service")[1]


@pytest.mark.spec("SHIP-13")
def test_the_units_wait_as_long_as_a_drain_takes_and_open_as_many_files_as_holds_need() -> None:
    lines = dict(
        line.split("=", 1) for line in (UNITS / "circadia.service").read_text("utf-8").splitlines() if "=" in line
    )
    assert int(lines["TimeoutStopSec"]) >= 30 + 10
    assert int(lines["LimitNOFILE"]) >= 2 * 20_000 + 64
    assert lines["RestartPreventExitStatus"] == "9"


@pytest.mark.spec("SHIP-13")
def test_the_command_of_the_backup_makes_a_copy(tmp_path: Path) -> None:
    (line,) = [
        line
        for line in (UNITS / "circadia-backup.service").read_text("utf-8").splitlines()
        if line.startswith("ExecStart=")
    ]
    data, copies = tmp_path / "data", tmp_path / "copies"
    copies.mkdir()
    own = Path(sys.executable).with_name("circadia")
    words = line.removeprefix("ExecStart=/bin/sh -c ").strip("'").replace("%%", "%").replace(PROGRAM, str(own))
    words = words.replace("/var/lib/circadia", str(data)).replace("/var/backups/circadia", str(copies))
    data.mkdir(mode=0o700)
    put_database(data)
    done = subprocess.run(["/bin/sh", "-c", words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (copy,) = copies.iterdir()
    assert copy.suffix == ".db"
    assert copy.stat().st_size > 0


@pytest.mark.spec("SHIP-13")
def test_the_page_shows_the_files_of_deploy() -> None:
    shown = {block.body.strip() for block in blocks(PAGE)}
    files = [*UNITS.iterdir(), *(ROOT / "deploy" / "tls").iterdir()]
    assert len(files) == 5
    assert not [file.name for file in files if file.read_text("utf-8").strip() not in shown]
