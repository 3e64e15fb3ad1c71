"""A memory folder is read whole or with a reason for each file that is not, and nothing outside it (DREAM-20, 32)."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from circadia.errors import InvalidRequest
from circadia.sleeptime.markdown.changeset import FileVersions
from circadia.sleeptime.markdown.memory_folder import MemoryFolder, read_folder
from circadia.sleeptime.markdown.publication import FileOutcome, publish, stage
from tests.sleeptime.markdown.folder_changes import NOW

pytestmark = pytest.mark.spec("DREAM-20", "DREAM-32")

FOLDERS = Path(__file__).parent / "folders"


def paths(folder: MemoryFolder) -> list[str]:
    return [str(file.path) for file in folder.files]


def problems(folder: MemoryFolder) -> dict[str, str]:
    return {str(path): message for path, message in folder.problems.items()}


def write(root: Path, **files: str | bytes) -> Path:
    for name, text in {"MEMORY": "# Memory\n", **files}.items():
        (root / f"{name}.md").write_bytes(text if isinstance(text, bytes) else text.encode())
    return root


@pytest.mark.parametrize(
    ("name", "expected", "kinds"),
    [
        (
            "claude_code",
            ["MEMORY.md", "feedback_wording.md", "project_freeze.md", "reference_tickets.md", "user_role.md"],
            [None, "feedback", "project", "reference", "user"],
        ),
        ("codex", ["MEMORY.md", "memory_summary.md"], [None] * 2),
        ("openclaw", ["MEMORY.md", "USER.md", "memory/2026-11-19.md", "memory/2026-11-20.md"], [None] * 4),
        ("letta", ["system/human.md", "system/persona.md", "system/project/commands.md"], [None] * 3),
    ],
)
def test_the_folders_of_coding_agents_are_read_without_what_is_no_memory(
    name: str, expected: list[str], kinds: list[str | None]
) -> None:
    folder = read_folder(FOLDERS / name)
    assert paths(folder) == expected
    assert [file.kind for file in folder.files] == kinds
    assert not problems(folder), "Letta shows its agent a tree, and needs no index"
    for file in folder.files:
        assert file.document.data == (FOLDERS / name / file.path).read_bytes()
        assert file.document.entries


def test_the_kind_of_a_topic_is_read_behind_a_byte_order_mark_and_an_unknown_one_is_none(tmp_path: Path) -> None:
    write(tmp_path, mark=b"\xef\xbb\xbf---\r\ntype: user\r\n---\r\n", other="---\ntype: recipe\n---\n")
    assert [file.kind for file in read_folder(tmp_path).topics] == ["user", None]


@pytest.mark.parametrize("name", ["MEMORY.md", "memory.md", "AGENTS.md", "CLAUDE.md"])
def test_the_index_has_one_of_the_names_that_the_tools_use(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("- a\n")
    (tmp_path / "topic.md").write_text("- b\n")
    folder = read_folder(tmp_path)
    assert folder.index is not None
    assert (str(folder.index.path), len(folder.topics), problems(folder)) == (name, 1, {})


def test_a_folder_without_an_index_and_an_empty_one_are_read_and_say_so(tmp_path: Path) -> None:
    assert "no index" in problems(read_folder(tmp_path))["MEMORY.md"]
    (tmp_path / "topic.md").write_text("- b\n")
    folder = read_folder(tmp_path)
    assert (folder.index, paths(folder)) == (None, ["topic.md"])


def test_what_is_no_folder_is_refused_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "file.md").write_text("- a\n")
    (tmp_path / "circle").symlink_to("circle")
    for path in (tmp_path / "file.md", tmp_path / "missing", tmp_path / "circle"):
        with pytest.raises(InvalidRequest, match="no readable folder"):
            read_folder(path)


def test_no_link_is_followed_and_each_is_named(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "private.md").write_text("- a secret\n")
    root = tmp_path / "memory"
    root.mkdir()
    write(root, topic="- mine\n")
    (root / "file.md").symlink_to(secret / "private.md")
    (root / "folder").symlink_to(secret)
    (root / "up").symlink_to("..")
    (root / "inside.md").symlink_to("topic.md")
    folder = read_folder(root)
    assert paths(folder) == ["MEMORY.md", "topic.md"]
    assert set(problems(folder)) == {"file.md", "folder", "up", "inside.md"}
    assert all("link" in reason for reason in problems(folder).values())


@pytest.mark.parametrize("swap", ["file", "folder"])
def test_a_path_that_becomes_a_link_after_the_reading_is_not_followed(tmp_path: Path, swap: str) -> None:
    """What was read is what a dream works on; what it writes is compared with the file of then, without the link."""
    root, secret = tmp_path / "memory", tmp_path / "secret"
    (root / "below").mkdir(parents=True)
    secret.mkdir()
    write(root)
    for folder in (root / "below", secret):
        (folder / "topic.md").write_text("- the same bytes\n")
    topic = read_folder(root).topics[0]
    stage(root, "one", [FileVersions(path=topic.path, old=topic.document.data, new=b"x")], now=NOW, title="x")
    if swap == "file":
        (root / "below" / "topic.md").unlink()
        (root / "below" / "topic.md").symlink_to(secret / "topic.md")
    else:
        shutil.rmtree(root / "below")
        (root / "below").symlink_to(secret)
    assert publish(root, "one").outcomes == {topic.path: FileOutcome.CHANGED_MEANWHILE}
    assert (secret / "topic.md").read_text() == "- the same bytes\n"
    assert "link" in "".join(problems(read_folder(root)).values())


def test_a_file_that_changes_or_goes_after_the_reading_is_left_as_it_is(tmp_path: Path) -> None:
    write(tmp_path, one="- a\n", two="- b\n")
    files = [
        FileVersions(path=file.path, old=file.document.data, new=b"- ours\n") for file in read_folder(tmp_path).topics
    ]
    (tmp_path / "one.md").write_text("- c\n")
    (tmp_path / "two.md").unlink()
    stage(tmp_path, "one", files, now=NOW, title="x")
    assert set(publish(tmp_path, "one").outcomes.values()) == {FileOutcome.CHANGED_MEANWHILE}
    assert ((tmp_path / "one.md").read_text(), (tmp_path / "two.md").exists()) == ("- c\n", False)


def test_binary_large_and_special_files_are_left_alone_with_the_reason(tmp_path: Path) -> None:
    write(tmp_path, binary=b"\x89PNG\0\x01", large="x" * 1_000_001, whole="x" * 1_000_000, bad=b"- caf\xe9 \xff\n")
    os.mkfifo(tmp_path / "pipe.md")
    (tmp_path / "folder.md").mkdir()
    (tmp_path / "picture.png").write_bytes(b"\x89PNG")
    folder = read_folder(tmp_path)
    assert paths(folder) == ["MEMORY.md", "bad.md", "whole.md"]
    assert folder.topics[0].document.data == b"- caf\xe9 \xff\n"
    assert problems(folder) == {
        "binary.md": "it is binary",
        "folder.md": "it cannot be read: it is no regular file",
        "large.md": "it is larger than 1000000 bytes; split it by hand",
        "pipe.md": "it cannot be read: it is no regular file",
    }


def test_names_with_spaces_umlauts_and_line_breaks_are_read_and_hidden_ones_are_not(tmp_path: Path) -> None:
    names = ["Über uns.md", "a b.MD", "日本語.md", "x\ny.md"]
    for name in names:
        (tmp_path / name).write_text("- a\n")
    for folder in (".circadia", ".git", ".obsidian"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "hidden.md").write_text("- a\n")
    (tmp_path / ".hidden.md").write_text("- a\n")
    assert sorted(paths(read_folder(write(tmp_path)))) == sorted(["MEMORY.md", *names])


def test_a_name_that_is_not_utf_8_is_left_alone(tmp_path: Path) -> None:
    (Path(os.fsdecode(os.fsencode(write(tmp_path)) + b"/caf\xe9.md"))).write_text("- a\n")
    folder = read_folder(tmp_path)
    assert (paths(folder), problems(folder)) == (["MEMORY.md"], {"caf\ufffd.md": "its name is not UTF-8; rename it"})


def test_names_that_one_disk_takes_for_the_same_are_reported(tmp_path: Path) -> None:
    for name in ("MEMORY", "Notes", "notes", "u\u0308ber", "\u00fcber"):
        (tmp_path / f"{name}.md").write_text("- a\n")
    reasons = problems(read_folder(tmp_path))
    assert set(reasons) == {"notes.md", "\u00fcber.md"}
    assert "'Notes.md' only in case" in reasons["notes.md"]


def test_a_read_only_file_is_not_writable_even_for_the_superuser(tmp_path: Path) -> None:
    write(tmp_path, fixed="- a\n", free="- b\n")
    (tmp_path / "fixed.md").chmod(0o444)
    fixed, free = read_folder(tmp_path).topics
    assert (fixed.document.is_writable, free.document.is_writable) == (False, True)


def test_a_folder_that_cannot_be_opened_is_named_and_the_others_are_read(tmp_path: Path) -> None:
    write(tmp_path, topic="- a\n")
    (tmp_path / "closed").mkdir()
    (tmp_path / "closed" / "inner.md").write_text("- b\n")
    (tmp_path / "closed").chmod(0)
    code = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "from circadia.sleeptime.markdown.memory_folder import read_folder\n"
        "if os.getuid() == 0: os.setgid(65534); os.setuid(65534)\n"
        "folder = read_folder(Path(sys.argv[1]))\n"
        "print([str(f.path) for f in folder.files], [str(path) for path in folder.problems])"
    )
    for folder in (tmp_path, *tmp_path.parents):
        if "pytest-" not in str(folder):
            break
        folder.chmod(0o755)  # pytest's own, which the other user must pass
    try:
        done = subprocess.run([sys.executable, "-c", code, tmp_path], capture_output=True, text=True, check=False)
    finally:
        (tmp_path / "closed").chmod(0o755)
    assert (done.stdout.strip(), done.stderr) == ("['MEMORY.md', 'topic.md'] ['closed']", "")
