"""In a git repository a dream is a commit of exactly its files; whatever else a person has changed stays as it is."""

from collections.abc import Callable
from pathlib import Path, PurePosixPath

import pytest

from circadia.errors import Conflict, StorageUnavailable
from circadia.sleeptime.markdown.publication import (
    FileOutcome,
    list_history,
    propose,
    publish,
    recover,
    show_diff,
    undo,
)
from tests.sleeptime.markdown.folder_changes import NOW, publish_now, read, read_all, stage_now, write_all
from tests.sleeptime.markdown.git_folder import git, make_repository
from tests.sleeptime.markdown.test_publication_kill import killing_program

pytestmark = pytest.mark.spec("DREAM-23")

OLD = {
    "memory/MEMORY.md": b"- [A](a.md)\n",
    "memory/a.md": b"- one\r\n- two\r\n",
    "memory/g.md": b"x",
    "code.py": b"pass\n",
}


@pytest.fixture(autouse=True)
def git_without_settings_of_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "none"))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")


@pytest.fixture
def top(tmp_path: Path) -> Path:
    make_repository(tmp_path / "repository", OLD)
    return tmp_path / "repository"


def test_a_dream_is_a_commit_of_exactly_the_published_files(top: Path) -> None:
    root = top / "memory"
    result = publish_now(root, "one", {"a.md": b"- 1\r\n", "sub/\u00e4 b.md": b"new", "g.md": None})
    assert not result.problems
    assert git(top, "log", "-1", "--format=%an <%ae>: %s") == "Ada <ada@example.org>: Dream one"
    assert git(top, "diff", "-z", "--name-status", "--no-renames", "HEAD^", "HEAD").split("\0") == [
        *("M", "memory/a.md"), *("D", "memory/g.md"), *("A", "memory/sub/\u00e4 b.md"), "",
    ]  # fmt: skip
    assert git(top, "rev-list", "--count", "main") == "2"
    assert git(top, "status", "--porcelain") == ""
    (entry,) = list_history(root)
    assert (entry.id, entry.commit, len(entry.published)) == ("one", git(top, "rev-parse", "HEAD"), 3)
    assert "-- one\r\n" in show_diff(root, "one")
    assert "+- 1\r\n" in show_diff(root, "one")


def test_a_repository_without_an_identity_gets_commits_of_circadia(tmp_path: Path) -> None:
    make_repository(tmp_path / "bare", OLD, name="")
    publish_now(tmp_path / "bare" / "memory", "one", {"a.md": b"new"})
    assert git(tmp_path / "bare", "log", "-1", "--format=%an <%ae> %cn") == "Circadia <circadia@localhost> Circadia"


def test_what_a_person_has_staged_or_changed_is_neither_committed_nor_touched(top: Path) -> None:
    write_all(top, {"code.py": b"staged\n", "memory/g.md": b"staged", "memory/untracked.md": b"u"})
    git(top, "add", "code.py", "memory/g.md")
    write_all(top, {"code.py": b"staged and changed\n", "memory/MEMORY.md": b"changed"})
    before = git(top, "status", "--porcelain")
    publish_now(top / "memory", "one", {"a.md": b"new"})
    assert git(top, "status", "--porcelain") == before
    assert git(top, "show", "--name-only", "--format=", "HEAD") == "memory/a.md"
    assert git(top, "show", ":code.py") == "staged"
    assert read(top, "code.py") == b"staged and changed\n"


def test_an_edit_of_a_person_that_is_not_committed_gets_a_commit_of_its_own_before_the_dreams(top: Path) -> None:
    write_all(top, {"memory/a.md": b"- a person's\n"})
    publish_now(top / "memory", "one", {"a.md": b"- a person's\n- ours\n"})
    assert git(top, "log", "--format=%s") == "Dream one\nState before dream one\nfirst"
    assert not undo(top / "memory", "one", "two", now=NOW).problems
    assert read(top, "memory/a.md") == b"- a person's\n"


def test_undo_is_a_commit_too_and_merges_with_later_dreams_and_edits(top: Path) -> None:
    root = top / "memory"
    publish_now(root, "one", {"a.md": b"- 1\r\n- two\r\n", "g.md": None})
    publish_now(root, "two", {"a.md": b"- 1\r\n- two\r\n- three\r\n"})
    write_all(root, {"a.md": b"- 1\r\n- two\r\n- three\r\n- four"})
    assert not undo(root, "one", "three", now=NOW).problems
    assert read_all(root) == {
        "MEMORY.md": b"- [A](a.md)\n",
        "a.md": b"- one\r\n- two\r\n- three\r\n- four",
        "g.md": b"x",
    }
    assert git(top, "status", "--porcelain") == ""
    assert {entry.id: entry.undoes for entry in list_history(root)} == {"one": None, "two": None, "three": "one"}
    write_all(root, {"a.md": b"- another\r\n"})
    with pytest.raises(Conflict, match=r"'a.md' lines 1-1"):
        undo(root, "two", "four", now=NOW)


def test_retired_entries_stay_out_of_the_commit_and_come_back_with_undo(top: Path) -> None:
    root = top / "memory"
    publish_now(root, "one", {"a.md": b"", ".circadia/retired/a.md": b"- one\r\n"})
    assert git(top, "show", "--name-only", "--format=", "HEAD") == "memory/a.md"
    assert git(top, "status", "--porcelain", "--untracked-files=all") == ""
    assert not undo(root, "one", "two", now=NOW).problems
    assert read(root, "a.md") == OLD["memory/a.md"]
    assert read(root, ".circadia/retired/a.md") is None


def test_a_file_that_is_left_alone_is_not_committed(top: Path) -> None:
    root = top / "memory"
    stage_now(root, "one", {"a.md": b"ours", "MEMORY.md": b"ours"})
    write_all(root, {"a.md": b"a person's"})
    assert publish(root, "one").outcomes[PurePosixPath("a.md")] is FileOutcome.CHANGED_MEANWHILE
    assert git(top, "show", "--name-only", "--format=", "HEAD") == "memory/MEMORY.md"
    assert [(e.id, e.published, e.proposed) for e in list_history(root)] != []
    write_all(root, {"a.md": OLD["memory/a.md"]})
    assert not publish(root, "one").problems
    assert git(top, "log", "--format=%s") == "Dream one\nDream one\nfirst"
    undo(root, "one", "two", now=NOW)
    assert {f"memory/{name}": data for name, data in read_all(root).items()} | {"code.py": b"pass\n"} == OLD


def detach(top: Path) -> None:
    git(top, "checkout", "-q", "--detach")


def begin_merge(top: Path) -> None:
    git(top, "checkout", "-qb", "other")
    write_all(top, {"other.py": b"1"})
    git(top, "add", "other.py")
    git(top, "commit", "-qm", "other")
    git(top, "checkout", "-q", "main")
    git(top, "merge", "-q", "--no-ff", "--no-commit", "other")


def ignore(top: Path) -> None:
    write_all(top, {".gitignore": b"memory/\n"})
    git(top, "rm", "-rq", "--cached", "memory")


@pytest.mark.parametrize("prepare", [detach, begin_merge, ignore])
def test_where_no_commit_is_wanted_the_folder_keeps_the_history(top: Path, prepare: Callable[[Path], None]) -> None:
    prepare(top)
    before = git(top, "rev-parse", "HEAD"), git(top, "status", "--porcelain")
    publish_now(top / "memory", "one", {"sub/b.md": b"new"})
    git(top, "update-index", "--refresh")
    assert git(top, "rev-parse", "HEAD") == before[0]
    assert list_history(top / "memory")[0].commit is None
    undo(top / "memory", "one", "two", now=NOW)
    assert git(top, "status", "--porcelain") == before[1]


def test_without_git_the_folder_keeps_the_history(top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as changed:
        changed.setenv("PATH", "/nowhere")
        publish_now(top / "memory", "one", {"a.md": b"new"})
        assert not undo(top / "memory", "one", "two", now=NOW).problems
    assert git(top, "status", "--porcelain") == ""


@pytest.mark.spec("DREAM-42")
def test_the_filters_of_the_repository_hold_so_that_a_commit_has_the_changed_lines_alone(top: Path) -> None:
    """D7: with `core.autocrlf` each dream was a commit of the whole file."""
    git(top, "config", "core.autocrlf", "true")
    write_all(
        top, {"memory/crlf.md": b"- one\r\n- two\r\n- three\r\n", ".gitattributes": b"memory/g.md filter=upper\n"}
    )
    git(top, "config", "filter.upper.clean", "tr a-z A-Z")
    git(top, "config", "filter.upper.smudge", "tr A-Z a-z")
    git(top, "add", ".")
    git(top, "commit", "-qm", "second")
    stage_now(top / "memory", "one", {"crlf.md": b"- one\r\n- 2\r\n- three\r\n", "g.md": b"y"})
    branch = propose(top / "memory", "one")
    assert git(top, "diff", "--numstat", "HEAD", branch, "--", "memory/crlf.md").split()[:2] == ["1", "1"]
    assert git(top, "show", f"{branch}:memory/g.md") == "Y"
    assert not publish(top / "memory", "one").problems
    assert git(top, "diff", "--numstat", "HEAD^", "HEAD", "--", "memory/crlf.md").split()[:2] == ["1", "1"]
    assert git(top, "show", "HEAD:memory/g.md") == "Y"
    assert git(top, "status", "--porcelain") == ""


def refuse_commits(top: Path, text: str) -> None:
    hook = top / ".git" / "hooks" / "pre-commit"
    hook.write_text(f"#!/bin/sh\nif git show :memory/a.md | grep -q '{text}'; then echo 'no {text} here'; exit 1; fi\n")
    hook.chmod(0o755)


@pytest.mark.spec("DREAM-40")
def test_a_hook_of_the_repository_decides_and_what_it_refuses_stays_a_proposal(top: Path) -> None:
    """D1: a dream committed past the hook of a folder, whose agent then could commit nothing."""
    refuse_commits(top, "bad")
    before = read_all(top / "memory"), git(top, "rev-parse", "HEAD"), git(top, "status", "--porcelain")
    result = publish_now(top / "memory", "one", {"a.md": b"bad", "new/b.md": b"b", "g.md": None})
    assert result.refusal == "the repository refuses the commit: no bad here"
    assert set(result.outcomes.values()) == {FileOutcome.TAKEN_BACK}
    assert (read_all(top / "memory"), git(top, "rev-parse", "HEAD"), git(top, "status", "--porcelain")) == before
    (entry,) = list_history(top / "memory")
    assert (len(entry.proposed), entry.published) == (3, ())
    refuse_commits(top, "worse")
    assert not publish(top / "memory", "one").problems
    assert git(top, "log", "--format=%s") == "Dream one\nfirst"


@pytest.mark.spec("DREAM-40")
def test_a_state_that_the_hook_refuses_keeps_a_dream_from_being_written(top: Path) -> None:
    refuse_commits(top, "bad")
    write_all(top, {"memory/a.md": b"a person's bad line\n"})
    assert publish_now(top / "memory", "one", {"a.md": b"ours\n"}).refusal
    assert read(top, "memory/a.md") == b"a person's bad line\n"
    assert git(top, "log", "--format=%s") == "first"


def test_an_index_that_a_person_uses_just_now_delays_the_commit_to_the_next_start(top: Path) -> None:
    lock = top / ".git" / "index.lock"
    lock.write_bytes(b"")
    with pytest.raises(StorageUnavailable, match=r"index\.lock"):
        publish_now(top / "memory", "one", {"a.md": b"new"})
    assert read(top, "memory/a.md") == b"new"
    lock.unlink()
    (result,) = recover(top / "memory")
    assert not result.problems
    assert git(top, "log", "--format=%s") == "Dream one\nfirst"
    assert git(top, "status", "--porcelain") == ""


def test_a_kill_at_any_instant_of_a_commit_leaves_one_commit_after_the_next_start(top: Path) -> None:
    """Each attempt gets 53 lines further, from the state that the one before has left."""
    root = top / "memory"
    stage_now(root, "one", {"a.md": b"new", "g.md": None})
    with killing_program(root) as kill_at:
        attempts = 0
        while kill_at(400 + attempts * 53) == "killed":
            attempts += 1
    assert attempts > 3
    assert recover(root) == []
    assert git(top, "log", "--format=%s") == "Dream one\nfirst"
    assert git(top, "status", "--porcelain") == ""
    assert not undo(root, "one", "two", now=NOW).problems
