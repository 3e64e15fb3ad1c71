"""A proposal lies beside the folder, or on a branch, until a person accepts or refuses it, in whole or by file."""

from pathlib import Path, PurePosixPath

import pytest

from circadia.errors import Conflict, InvalidRequest, NotFound
from circadia.sleeptime.markdown.publication import list_history, propose, publish, recover, refuse, undo
from tests.sleeptime.markdown.folder_changes import NOW, read, read_all, stage_now, write_all
from tests.sleeptime.markdown.git_folder import git, make_repository

pytestmark = pytest.mark.spec("DREAM-22")

OLD = {"MEMORY.md": b"- [A](a.md)\n", "a.md": b"- one\n", "sub/b.md": b"\xff"}
NEW: dict[str, bytes | None] = {
    "a.md": b"- 1\n",
    "sub/b.md": None,
    "new/c.md": b"c",
    ".circadia/retired/a.md": b"- one\n",
}
PROPOSED = {"MEMORY.md": b"- [A](a.md)\n", "a.md": b"- 1\n", "new/c.md": b"c"}
A = PurePosixPath("a.md")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write_all(tmp_path / "memory", OLD)
    stage_now(tmp_path / "memory", "one", NEW)
    return tmp_path / "memory"


@pytest.mark.spec("DREAM-42")
def test_a_proposal_is_a_copy_of_the_memory_files_beside_the_folder_which_stays_as_it_is(root: Path) -> None:
    """D7: it copied `node_modules` and media."""
    write_all(root, {"node_modules/x/README.md": b"x", "photo.jpg": b"\0", "skills/a.md": b"a"})
    view = Path(propose(root, "one"))
    assert view == root.with_name("memory.proposed-one")
    assert read_all(view) == PROPOSED
    assert not (view / ".circadia").exists()
    assert OLD.items() <= read_all(root).items()


def test_accepting_publishes_and_removes_the_view(root: Path) -> None:
    view = Path(propose(root, "one"))
    assert not publish(root, "one").problems
    assert read_all(root) == PROPOSED
    assert not view.exists()


def test_refusing_removes_the_view_and_the_proposal(root: Path) -> None:
    view = Path(propose(root, "one"))
    refuse(root, "one")
    assert read_all(root) == OLD
    assert not view.exists()
    assert [path.name for path in root.parent.iterdir()] == ["memory"]
    with pytest.raises(NotFound):
        publish(root, "one")


def test_what_is_left_of_a_proposal_is_refused_without_what_was_written(root: Path) -> None:
    view = Path(propose(root, "one"))
    write_all(root, {"new/c.md": b"a person's"})
    assert publish(root, "one").problems
    assert read(view, "new/c.md") == b"c"
    refuse(root, "one")
    assert not view.exists()
    assert read_all(root) == {"MEMORY.md": OLD["MEMORY.md"], "a.md": b"- 1\n", "new/c.md": b"a person's"}
    undo(root, "one", "two", now=NOW)
    assert read_all(root) == {**OLD, "new/c.md": b"a person's"}


def test_a_file_changed_since_the_proposal_is_left_alone_and_stays_proposed(root: Path) -> None:
    view = Path(propose(root, "one"))
    write_all(root, {"a.md": b"- a person's\n"})
    assert publish(root, "one").problems
    assert read(root, "a.md") == b"- a person's\n"
    assert read(view, "a.md") == b"- 1\n"
    assert list_history(root)[0].proposed == (A,)


def test_a_folder_of_somebody_else_is_not_overwritten(root: Path) -> None:
    write_all(root.with_name("memory.proposed-one"), {"x.md": b"mine"})
    with pytest.raises(Conflict, match="is there already"):
        propose(root, "one")
    refuse(root, "one")
    assert read_all(root.with_name("memory.proposed-one")) == {"x.md": b"mine"}


def test_symlinks_of_the_folder_lead_out_of_no_copy(root: Path) -> None:
    write_all(root.parent, {"outside/b.md": b"\xff"})
    (root / "sub" / "b.md").unlink()
    (root / "sub").rmdir()
    (root / "sub").symlink_to(root.parent / "outside")
    with pytest.raises(InvalidRequest, match="symlink"):
        propose(root, "one")
    assert read_all(root.parent / "outside") == {"b.md": b"\xff"}


def test_a_view_that_a_crash_has_left_goes_at_the_next_start(root: Path) -> None:
    view = Path(propose(root, "one"))
    manifest = root / ".circadia" / "dreams" / "one" / "manifest.json"
    published = manifest.read_text().replace('"staged"', '"published"')
    manifest.write_text(published)
    recover(root)
    assert not view.exists()


def test_in_a_repository_a_proposal_is_a_branch_and_neither_files_nor_head_change(tmp_path: Path) -> None:
    top = tmp_path / "repository"
    make_repository(top, {f"memory/{name}": data for name, data in OLD.items()} | {"code.py": b"pass\n"})
    root = top / "memory"
    write_all(top, {"code.py": b"staged\n"})
    git(top, "add", "code.py")
    before = git(top, "rev-parse", "HEAD"), git(top, "status", "--porcelain")
    stage_now(root, "one", NEW)
    assert propose(root, "one") == "circadia/dream-one"
    assert (git(top, "rev-parse", "HEAD"), git(top, "status", "--porcelain")) == before
    assert (
        git(top, "diff", "--name-status", "HEAD", "circadia/dream-one")
        == "M\tmemory/a.md\nA\tmemory/new/c.md\nD\tmemory/sub/b.md"
    )
    assert list_history(root)[0].published == ()
    write_all(root, {"sub/b.md": b"a person's"})
    assert publish(root, "one").problems
    assert git(top, "diff", "--name-status", "HEAD", "circadia/dream-one") == "D\tmemory/sub/b.md"
    refuse(root, "one")
    assert git(top, "branch", "--format=%(refname:short)") == "main"
    assert git(top, "log", "--format=%s") == "Dream one\nfirst"
    assert git(top, "status", "--porcelain") == f"{before[1]}\n M memory/sub/b.md"
