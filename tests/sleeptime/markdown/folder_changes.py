"""Changes of a memory folder, as a dream makes them, for tests."""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath

from circadia.sleeptime.markdown.changeset import FileVersions
from circadia.sleeptime.markdown.publication import PublicationResult, publish, stage

NOW = datetime(2026, 11, 27, 3, 0, tzinfo=UTC)


def read(root: Path, name: str) -> bytes | None:
    """Return the contents of a file, or None where there is none."""
    path = root / name
    return path.read_bytes() if path.exists() else None


def read_all(root: Path) -> dict[str, bytes]:
    """Return the contents of a folder without those of dot folders, by path."""
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file() and not any(part.startswith(".") for part in path.relative_to(root).parts)
    }


def write_all(root: Path, files: Mapping[str, bytes]) -> None:
    """Write files as an agent does."""
    for name, data in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def stage_now(
    root: Path, changeset_id: str, contents: Mapping[str, bytes | None], old: Mapping[str, bytes | None] | None = None
) -> None:
    """Stage new contents over what the files hold now, or over `old`."""
    held = {name: read(root, name) for name in contents} if old is None else old
    files = [FileVersions(path=PurePosixPath(name), old=held[name], new=data) for name, data in contents.items()]
    stage(root, changeset_id, files, now=NOW, title=f"Dream {changeset_id}")


def publish_now(root: Path, changeset_id: str, contents: Mapping[str, bytes | None]) -> PublicationResult:
    """Stage and publish."""
    stage_now(root, changeset_id, contents)
    return publish(root, changeset_id)
