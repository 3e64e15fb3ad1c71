"""A dream's files are staged beside the folder's, checked, and put in place; nothing else is touched."""

import os
import subprocess
import sys
from pathlib import Path, PurePosixPath

import pytest

from circadia.errors import Conflict, InvalidRequest, NotFound
from circadia.sleeptime.markdown.changeset import FileVersions
from circadia.sleeptime.markdown.publication import FileOutcome, publish, stage
from tests.sleeptime.markdown.folder_changes import NOW, publish_now, read, read_all, stage_now, write_all

pytestmark = pytest.mark.spec("DREAM-20", "DREAM-21")

INDEX = b"\xef\xbb\xbf# Memory\r\n\r\n- [Build](build.md)\r\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "memory"
    folder.mkdir(mode=0o755)
    write_all(
        folder, {"MEMORY.md": INDEX, "build.md": b"- use make\n", "topics/Gr\u00fc\u00dfe an alle.md": b"- hello"}
    )
    return folder


def outcome_of(root: Path, changeset_id: str, name: str) -> FileOutcome:
    return publish(root, changeset_id).outcomes[PurePosixPath(name)]


def test_files_are_replaced_made_and_taken_out_and_the_rest_stays_byte_for_byte(root: Path) -> None:
    before = read_all(root)
    result = publish_now(
        root, "one", {"topics/Gr\u00fc\u00dfe an alle.md": b"- hi", "new/deep/a b.md": b"\xff\x00", "build.md": None}
    )
    assert not result.problems
    assert read_all(root) == {
        "MEMORY.md": before["MEMORY.md"], "topics/Gr\u00fc\u00dfe an alle.md": b"- hi", "new/deep/a b.md": b"\xff\x00",
    }  # fmt: skip


def test_staging_changes_no_file_of_the_folder(root: Path) -> None:
    before = read_all(root)
    stage_now(root, "one", {"MEMORY.md": b"new", "fresh.md": b"new", "build.md": None})
    assert read_all(root) == before


def test_an_entry_that_leaves_its_file_goes_to_the_retired_ones(root: Path) -> None:
    assert not publish_now(root, "one", {"build.md": b"", ".circadia/retired/build.md": b"- use make\n"}).problems
    assert read(root, ".circadia/retired/build.md") == b"- use make\n"


def test_permissions_stay_and_a_new_file_has_those_of_its_folder(root: Path) -> None:
    (root / "build.md").chmod(0o640)
    root.chmod(0o700)
    assert not publish_now(root, "one", {"build.md": b"new", "topic.md": b"new"}).problems
    assert (root / "build.md").stat().st_mode & 0o777 == 0o640
    assert (root / "topic.md").stat().st_mode & 0o777 == 0o600


def test_root_leaves_each_file_to_its_owner(root: Path) -> None:
    ids = {"": (1234, 1235), "build.md": (2345, 2346)}
    if os.geteuid() != 0:  # who gives no files away owns them all
        ids = dict.fromkeys(ids, (os.geteuid(), os.getegid()))
    for name, (user, group) in ids.items():
        os.chown(root / name, user, group)
    assert not publish_now(root, "one", {"build.md": b"new", "topic.md": b"new"}).problems
    for name, like in (("build.md", "build.md"), ("topic.md", "")):
        status = (root / name).stat()
        assert (status.st_uid, status.st_gid) == ids[like]


def test_a_file_that_somebody_changed_since_is_left_alone_and_ours_stays_a_proposal(root: Path) -> None:
    stage_now(root, "one", {"build.md": b"- ours\n", "MEMORY.md": b"ours", "fresh.md": b"ours", "topics/x.md": b"ours"})
    (root / "build.md").write_bytes(b"- a person's\n")
    (root / "fresh.md").write_bytes(b"an agent's")
    result = publish(root, "one")
    assert result.problems
    assert {str(path): outcome.value for path, outcome in result.outcomes.items()} == {
        "build.md": "changed meanwhile", "fresh.md": "changed meanwhile",
        "MEMORY.md": "published", "topics/x.md": "published",
    }  # fmt: skip
    assert read(root, "build.md") == b"- a person's\n"
    assert read(root, "fresh.md") == b"an agent's"
    (root / "build.md").write_bytes(b"- use make\n")
    assert outcome_of(root, "one", "build.md") is FileOutcome.PUBLISHED
    assert read(root, "build.md") == b"- ours\n"


def test_a_file_that_somebody_removed_since_stays_removed(root: Path) -> None:
    stage_now(root, "one", {"build.md": b"- ours\n", "topics/Gr\u00fc\u00dfe an alle.md": b"ours"})
    (root / "build.md").unlink()
    (root / "topics" / "Gr\u00fc\u00dfe an alle.md").unlink()
    (root / "topics").rmdir()
    assert set(publish(root, "one").outcomes.values()) == {FileOutcome.CHANGED_MEANWHILE}
    assert read_all(root) == {"MEMORY.md": INDEX}


@pytest.mark.parametrize("new", [b"ours", None])
def test_a_read_only_file_is_never_replaced(root: Path, new: bytes | None) -> None:
    (root / "build.md").chmod(0o444)
    stage_now(root, "one", {"build.md": new})
    assert outcome_of(root, "one", "build.md") is FileOutcome.READ_ONLY
    assert read(root, "build.md") == b"- use make\n"


WITHOUT_ROOT = """
import os, sys
from pathlib import Path
from tests.sleeptime.markdown.folder_changes import publish_now
if os.geteuid() == 0:
    os.setgroups([]), os.setgid(4321), os.setuid(4321)
print(*publish_now(Path(sys.argv[1]), "one", {"sub/a.md": b"ours"}).outcomes.values())
"""


def test_a_file_in_a_read_only_folder_is_left_alone(tmp_path: Path) -> None:
    write_all(tmp_path, {"memory/sub/a.md": b"old"})
    root = tmp_path / "memory"
    for path in (root / "sub" / "a.md", root / "sub", root):
        if os.geteuid() == 0:
            os.chown(path, 4321, 4321)
    for path in (tmp_path, *list(tmp_path.parents)[:3]):
        path.chmod(0o755)
    (root / "sub").chmod(0o555)
    done = subprocess.run([sys.executable, "-c", WITHOUT_ROOT, root], capture_output=True, text=True, timeout=60)
    (root / "sub").chmod(0o755)
    assert done.stdout == "read-only\n", done.stderr
    assert (root / "sub" / "a.md").read_bytes() == b"old"


OUTSIDE = [
    "../out.md", "a/../../out.md", "/etc/out.md", "", ".", ".git/a.md", "a/.hidden.md", ".circadia/lock.md",
    ".Circadia/retired/a.md", ".circadia/retired/../dreams/a.md", "a.txt", "MEMORY", "a.md\0.md", "a\udcff.md",
]  # fmt: skip


@pytest.mark.parametrize("name", OUTSIDE)
def test_a_path_that_leads_out_or_is_no_markdown_file_is_refused(root: Path, name: str) -> None:
    path = PurePosixPath(name)
    with pytest.raises(InvalidRequest, match="no path of a Markdown file inside the folder"):
        stage(root, "one", [FileVersions(path=path, old=None, new=b"x")], now=NOW, title="x")
    assert not (root / ".circadia").exists()


@pytest.mark.parametrize("name", ["memory.md", "Memory.MD", "TOPICS/new.md", "topics/GRU\u0308SSE AN ALLE.md"])
def test_a_name_that_differs_only_in_case_from_one_that_is_there_is_refused(root: Path, name: str) -> None:
    with pytest.raises(InvalidRequest, match="differs only in case"):
        stage_now(root, "one", {name: b"x"})


def test_two_new_names_that_differ_only_in_case_are_refused(root: Path) -> None:
    with pytest.raises(InvalidRequest, match="differ only in case"):
        stage_now(root, "one", {"New.md": b"x", "new.md": b"y"})


def make_symlinks(root: Path, outside: Path) -> None:
    """Put symlinks where a file, a folder and our own folder for retired entries were."""
    (root / "build.md").unlink()
    (root / "build.md").symlink_to(outside / "secret.md")
    (root / "topics").rename(root / "elsewhere")
    (root / "topics").symlink_to(outside)
    (root / "fresh.md").symlink_to(outside / "fresh.md")
    (root / ".circadia").mkdir(exist_ok=True)
    (root / ".circadia" / "retired").symlink_to(outside)


LEADING_OUT = ["build.md", "topics/secret.md", "topics/new/x.md", "fresh.md", ".circadia/retired/secret.md"]


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    write_all(tmp_path, {"outside/secret.md": b"- use make\n"})
    return tmp_path / "outside"


@pytest.mark.parametrize("name", LEADING_OUT)
def test_no_symlink_leads_out(root: Path, outside: Path, name: str) -> None:
    make_symlinks(root, outside)
    path = PurePosixPath(name)
    old = None if name == "fresh.md" else b"- use make\n"
    with pytest.raises(InvalidRequest, match="symlink"):
        stage(root, "one", [FileVersions(path=path, old=old, new=b"ours")], now=NOW, title="x")
    assert read_all(outside) == {"secret.md": b"- use make\n"}


def test_no_symlink_that_appears_after_staging_leads_out(root: Path, outside: Path) -> None:
    write_all(root, {"topics/secret.md": b"- use make\n"})
    contents: dict[str, bytes | None] = dict.fromkeys(LEADING_OUT, b"ours")
    stage_now(root, "one", {**contents, "topics/Gr\u00fc\u00dfe an alle.md": None})
    make_symlinks(root, outside)
    assert set(publish(root, "one").outcomes.values()) == {FileOutcome.CHANGED_MEANWHILE}
    assert read_all(outside) == {"secret.md": b"- use make\n"}
    assert read(root, "elsewhere/Gr\u00fc\u00dfe an alle.md") == b"- hello"


def test_our_own_folder_may_not_be_a_symlink(root: Path, outside: Path) -> None:
    (root / ".circadia").symlink_to(outside)
    with pytest.raises(InvalidRequest, match="symlink"):
        stage_now(root, "one", {"build.md": b"ours"})
    assert read_all(outside) == {"secret.md": b"- use make\n"}


def test_a_pipe_in_place_of_a_file_is_left_alone_and_nothing_waits_for_it(root: Path) -> None:
    stage_now(root, "one", {"build.md": b"ours"})
    (root / "build.md").unlink()
    os.mkfifo(root / "build.md")
    assert outcome_of(root, "one", "build.md") is FileOutcome.CHANGED_MEANWHILE


def test_staged_contents_that_somebody_changed_are_not_published(root: Path) -> None:
    stage_now(root, "one", {"build.md": b"ours"})
    for staged in (root / ".circadia" / "dreams" / "one").glob("0.*"):
        staged.write_bytes(b"injected")
    with pytest.raises(InvalidRequest, match="were changed or removed"):
        publish(root, "one")
    assert read(root, "build.md") == b"- use make\n"


def test_a_manifest_that_leads_out_is_refused(root: Path, outside: Path) -> None:
    stage_now(root, "one", {"build.md": b"ours"})
    manifest = root / ".circadia" / "dreams" / "one" / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"build.md"', '"../outside/secret.md"'))
    with pytest.raises(InvalidRequest, match="no path of a Markdown file"):
        publish(root, "one")
    assert read_all(outside) == {"secret.md": b"- use make\n"}


@pytest.mark.parametrize("changeset_id", ["..", "a/b", "", ".x", "a" * 101])
def test_an_id_that_is_no_name_is_refused(root: Path, changeset_id: str) -> None:
    with pytest.raises(InvalidRequest, match="no id of a dream"):
        stage_now(root, changeset_id, {"build.md": b"ours"})


def test_an_unknown_dream_and_a_taken_id_are_errors(root: Path) -> None:
    with pytest.raises(NotFound):
        publish(root, "one")
    stage_now(root, "one", {"build.md": b"ours"})
    with pytest.raises(Conflict):
        stage_now(root, "one", {"build.md": b"ours"})


def test_a_folder_that_is_none_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    for name in ("file", "nowhere"):
        with pytest.raises(InvalidRequest, match="no folder"):
            stage_now(tmp_path / name, "one", {})
