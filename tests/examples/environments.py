"""An environment of its own for each example, as a user makes it; kept in build/examples while its pins last."""

import asyncio
import hashlib
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.clients.node_program import node
from tests.house.tree import ROOT

FRAMEWORKS: Final = ROOT / "examples" / "frameworks"
BUILD: Final = ROOT / "build" / "examples"


async def install_python(requirements: Path) -> Path:
    """Make the virtual environment of a file of pins, if it is not there, and return its Python."""
    folder = _folder_of(requirements)
    python = folder / "bin" / "python"
    if not (folder / "installed").exists():
        await _run(sys.executable, "-m", "venv", "--clear", str(folder))
        pip = (str(python), "-m", "pip", "--disable-pip-version-check")
        await _run(*pip, "install", "--quiet", "-r", str(requirements))
        (folder / "installed").touch()
    return python


async def list_installed(python: Path) -> list[str]:
    """Return the pins of all that an environment has."""
    listed = await _run(str(python), "-m", "pip", "--disable-pip-version-check", "freeze")
    return sorted(listed.split())


async def install_node(program: Path) -> list[str]:
    """Install the packages of a program's folder, and return the words that run a copy beside them."""
    package = program.with_name("package.json")
    folder = _folder_of(package)
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "installed").exists():
        shutil.copy(package, folder)
        await _run("npm", "install", "--silent", "--no-audit", "--no-fund", "--no-package-lock", folder=folder)
        (folder / "installed").touch()
    return [node(), str(shutil.copy(program, folder))]


def _folder_of(pins: Path) -> Path:
    return BUILD / f"{pins.parent.name}-{hashlib.sha256(pins.read_bytes()).hexdigest()[:12]}"


async def _run(*words: str, folder: Path = ROOT) -> str:
    process = await asyncio.create_subprocess_exec(
        *words, cwd=folder, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    output, errors = await process.communicate()
    assert process.returncode == 0, f"{words}\n{errors.decode()}"
    return output.decode()


def read_pins(requirements: Path) -> Sequence[str]:
    return [line for line in requirements.read_text("utf-8").splitlines() if not line.startswith("#")]
