"""The history of a folder: log, diff, and undo, also after later dreams."""

from datetime import timedelta
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from circadia.errors import Conflict, NotFound
from circadia.sleeptime.markdown.publication import list_history, recover, show_diff, undo
from tests.sleeptime.markdown.folder_changes import NOW, publish_now, read, read_all, stage_now, write_all

pytestmark = pytest.mark.spec("DREAM-23")

OLD = {"MEMORY.md": b"\xef\xbb\xbf- [A](a.md)\r\n", "a.md": b"- one\n- two\n- three\n- four", "gone.md": b"\xff\x00"}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write_all(tmp_path, OLD)
    return tmp_path


def test_undo_restores_each_file_exactly_and_can_be_undone(root: Path) -> None:
    (root / "gone.md").chmod(0o640)
    publish_now(root, "one", {"a.md": b"- 1\n", "sub/new.md": b"new", "gone.md": None})
    after = read_all(root)
    assert not undo(root, "one", "two", now=NOW).problems
    assert read_all(root) == OLD
    assert (root / "gone.md").stat().st_mode & 0o777 == 0o640
    assert not (root / "sub").exists()
    assert not undo(root, "two", "three", now=NOW).problems
    assert read_all(root) == after


def test_undo_after_later_dreams_and_edits_takes_back_the_lines_of_its_dream_alone(root: Path) -> None:
    publish_now(root, "one", {"a.md": b"- 1\n- two\n- three\n- four"})
    publish_now(root, "two", {"a.md": b"- 1\n- two\n- 3\n- four"})
    (root / "a.md").write_bytes(b"- 1\n- two\n- 3\n- four\n- a person's")
    assert not undo(root, "one", "three", now=NOW).problems
    assert read(root, "a.md") == b"- one\n- two\n- 3\n- four\n- a person's"


def test_undo_where_later_changes_overlap_changes_nothing_and_names_file_and_lines(root: Path) -> None:
    publish_now(root, "one", {"a.md": b"- one\n- 2\n- 3\n- four", "MEMORY.md": b"new", "gone.md": None, "b.md": b"x"})
    write_all(root, {"a.md": b"- one\n- 2\n- drei\n- four", "gone.md": b"anew", "b.md": b"y"})
    before = read_all(root)
    with pytest.raises(Conflict) as raised:
        undo(root, "one", "two", now=NOW)
    assert "nothing was changed" in raised.value.message
    assert all(
        place in raised.value.message
        for place in ("'a.md' lines 2-3", "'gone.md' (made anew since)", "'b.md' lines 1-1")
    )
    assert read_all(root) == before
    assert [entry.id for entry in list_history(root)] == ["one"]


def test_undo_of_what_is_undone_already_or_unknown_is_an_error(root: Path) -> None:
    publish_now(root, "one", {"a.md": b"- 1\n"})
    undo(root, "one", "two", now=NOW)
    with pytest.raises(Conflict, match="undone already"):
        undo(root, "one", "three", now=NOW)
    stage_now(root, "four", {"a.md": b"- 4\n"})
    for unknown in ("nothing", "four"):
        with pytest.raises(NotFound, match="has changed this folder"):
            undo(root, unknown, "five", now=NOW)
    with pytest.raises(NotFound):
        show_diff(root, "nothing")


def test_the_log_says_what_each_dream_published_and_what_it_proposes(root: Path) -> None:
    publish_now(root, "one", {"a.md": b"- 1\n", "b.md": b"b"})
    undo(root, "one", "two", now=NOW + timedelta(hours=1))
    stage_now(root, "three", {"a.md": b"- 3\n"})
    later, *entries = list_history(root)
    assert (later.id, later.undoes, later.title) == ("two", "one", "Undo of dream one")
    assert {entry.id: (entry.published, entry.proposed) for entry in entries} == {
        "one": ((PurePosixPath("a.md"), PurePosixPath("b.md")), ()),
        "three": ((), (PurePosixPath("a.md"),)),
    }


def test_the_diff_is_a_unified_one(root: Path) -> None:
    publish_now(root, "one", {"a.md": b"- one\n- zwei\n- three\n- four", "gone.md": None})
    assert show_diff(root, "one") == (
        "--- a.md\n+++ a.md\n@@ -1,4 +1,4 @@\n - one\n-- two\n+- zwei\n - three\n - four\n"
        "\\ No newline at end of file\n"
        "--- gone.md\n+++ /dev/null\n@@ -1 +0,0 @@\n-\ufffd\x00\n\\ No newline at end of file\n"
    )
    stage_now(root, "two", {"b.md": b"b\n"})
    assert show_diff(root, "two") == "--- /dev/null\n+++ b.md\n@@ -0,0 +1 @@\n+b\n"


def test_reading_the_log_writes_nothing_and_bears_what_others_leave_there(root: Path) -> None:
    assert list_history(root) == []
    assert not (root / ".circadia").exists()
    publish_now(root, "one", {"a.md": b"- 1\n"})
    write_all(root, {".circadia/dreams/.DS_Store": b"x"})
    (root / ".circadia" / "dreams" / "being-staged").mkdir()
    assert [entry.id for entry in list_history(root)] == ["one"]
    assert recover(root) == []


FILES = ("a.md", "b.md", "c.md")
contents = st.one_of(st.none(), st.lists(st.sampled_from([b"- x\n", b"- y\n", b"- z"]), max_size=4).map(b"".join))
dreams = st.lists(st.dictionaries(st.sampled_from(FILES), contents, min_size=1), min_size=1, max_size=4)


@given(dreams, st.randoms(use_true_random=False))
@settings(max_examples=15)
def test_undos_of_all_dreams_from_the_last_to_the_first_restore_each_state_exactly(
    changes: list[dict[str, bytes | None]], random: object
) -> None:
    with TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:
        root = Path(folder)
        write_all(root, {"a.md": b"- x\n- y\n- z\n"})
        states = [read_all(root)]
        for number, change in enumerate(changes):
            publish_now(root, f"d{number}", change)
            states.append(read_all(root))
        for number in reversed(range(len(changes))):
            if states[number] != states[number + 1]:
                assert not undo(root, f"d{number}", f"u{number}", now=NOW).problems
            assert read_all(root) == states[number]


@given(st.permutations(range(4)), st.integers(1, 4))
@settings(max_examples=15)
def test_undos_in_any_order_of_dreams_that_do_not_overlap_restore_exactly(order: list[int], how_many: int) -> None:
    """Each dream changes a line of its own in one file, and has a file of its own."""
    with TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:
        root = Path(folder)
        lines = [b"- line %d\n" % number for number in range(9)]
        write_all(root, {"a.md": b"".join(lines)})
        for number in range(4):
            lines[2 * number] = b"- dream %d\n" % number
            publish_now(root, f"d{number}", {"a.md": b"".join(lines), f"own{number}.md": b"x"})
        for number in order[:how_many]:
            assert not undo(root, f"d{number}", f"u{number}", now=NOW).problems
            lines[2 * number] = b"- line %d\n" % (2 * number)
        left = {f"own{number}.md": b"x" for number in order[how_many:]}
        assert read_all(root) == {"a.md": b"".join(lines), **left}
