"""The revisions of the schema that this version knows, read from their files without Alembic."""

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from sqlalchemy import Connection, inspect, text

VERSIONS: Final = Path(__file__).parent / "migrations" / "versions"

_PRESENT: Final = text("SELECT version_num FROM alembic_version")


@dataclass(frozen=True, kw_only=True, slots=True)
class Revision:
    number: str
    name: str
    works_with: str
    """Number of the oldest schema whose code works with this one."""


@cache
def newest_revision() -> str:
    """Return the number of this version's schema; the files are named by their numbers."""
    return max(path.name for path in VERSIONS.glob("[0-9]*.py")).partition("_")[0]


@cache
def list_revisions() -> Sequence[Revision]:
    """Return all revisions that this version knows, oldest first."""
    return [_read_file(path) for path in sorted(VERSIONS.glob("[0-9]*.py"))]


def find_missing(present: str | None) -> Sequence[Revision]:
    """Return the revisions that a database with this one, or none, lacks; none if its own is newer than all."""
    if present is not None and present >= newest_revision():
        return []
    return [revision for revision in list_revisions() if present is None or revision.number > present]


def read_revision(connection: Connection) -> str | None:
    """Return the revision of a database; none if it has no tables yet."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    number: str | None = connection.scalar(_PRESENT)
    return number


def _read_file(path: Path) -> Revision:
    module = ast.parse(path.read_text("utf-8"))
    values = {
        target.id: statement.value.value
        for statement in module.body
        if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Constant)
        for target in statement.targets
        if isinstance(target, ast.Name)
    }
    number = path.name.partition("_")[0]
    name = (ast.get_docstring(module) or "").partition("\n")[0]
    return Revision(number=number, name=name, works_with=str(values.get("works_with", number)))
