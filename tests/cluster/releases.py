"""Later releases of Circadia: copies of its package with more migrations and a version of their own."""

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import circadia
from circadia.stores.sql.revisions import newest_revision
from tests.fixtures.program import Program
from tests.fixtures.server_process import ADMIN_TOKEN, CircadiaProcess

_MIGRATION: Final = """'''{name}'''
from alembic import op

revision, down_revision, branch_labels, depends_on = {number!r}, {before!r}, None, None
works_with = {works_with!r}


def upgrade() -> None:
    op.execute({statement!r})
    for name, table, columns in {indexes!r}:
        op.create_index(name, table, columns)
"""
_START: Final = """import os, sys

os.execve(sys.executable, [sys.executable, "-m", "circadia", *sys.argv[1:]], {{**os.environ, "PYTHONPATH": {tree!r}}})
"""


@dataclass(frozen=True, kw_only=True)
class Migration:
    """A migration after the newest one of this tree."""

    name: str
    works_with: str
    statement: str
    indexes: Sequence[tuple[str, str, Sequence[str]]] = ()
    """Name, table and columns of each new index."""


@dataclass(frozen=True, kw_only=True)
class Release:
    """A release that is installed in a folder of its own."""

    version: str
    program: Path

    def serve(self, folder: Path, config: Mapping[str, Any], *options: str) -> CircadiaProcess:
        folder.mkdir()
        return CircadiaProcess(folder, config, program=[str(self.program)], options=options)

    async def start(self, *words: str) -> Program:
        """Start a command."""
        env = {**os.environ, "CIRCADIA_ADMIN_TOKEN": ADMIN_TOKEN, "NO_COLOR": "1", "COLUMNS": "200"}
        return await Program.start([str(self.program)], *words, env=env)

    async def run(self, *words: str) -> tuple[int, str]:
        """Run a command and return its status and what it says."""
        process = await self.start(*words)
        text = (await process.stdout.read()).decode()
        return await process.wait(), text


def newest_number(later: int = 0) -> str:
    """Return the number of this tree's newest schema, or of one that comes so many migrations later."""
    return f"{int(newest_revision()) + later:04}"


def install_release(folder: Path, version: str, *migrations: Migration) -> Release:
    """Copy the package and add the migrations."""
    tree = folder / version
    shutil.copytree(Path(circadia.__file__).parent, tree / "circadia", ignore=shutil.ignore_patterns("__pycache__"))
    about = tree / f"circadia-{version}.dist-info" / "METADATA"
    about.parent.mkdir()
    about.write_text(f"Metadata-Version: 2.1\nName: circadia\nVersion: {version}\n", "utf-8")
    for place, migration in enumerate(migrations):
        number = newest_number(place + 1)
        text = _MIGRATION.format(
            name=migration.name, number=number, before=newest_number(place), works_with=migration.works_with,
            statement=migration.statement, indexes=migration.indexes,
        )  # fmt: skip
        versions = tree / "circadia" / "stores" / "sql" / "migrations" / "versions"
        (versions / f"{number}_later.py").write_text(text, "utf-8")
        with (tree / "circadia" / "stores" / "sql" / "schema.py").open("a", encoding="utf-8") as schema:
            for name, table, columns in migration.indexes:
                schema.write(f"Index({name!r}, *({table}.c[name] for name in {columns!r}))\n")
    program = tree / "run.py"
    program.write_text(_START.format(tree=str(tree)), "utf-8")
    return Release(version=version, program=program)
