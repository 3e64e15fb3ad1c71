"""A merge by lines agrees with git's."""

import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from circadia.sleeptime.publish.merge import apply_change

BASE = b"".join(b"- %d\n" % number for number in range(6))


@pytest.mark.parametrize(
    ("ours", "theirs", "merged"),
    [
        (BASE + b"- later\n", BASE.replace(b"- 1\n", b""), BASE.replace(b"- 1\n", b"") + b"- later\n"),
        (BASE.replace(b"- 1\n", b""), BASE.replace(b"- 1\n", b""), BASE.replace(b"- 1\n", b"")),
        (b"- first\n" + BASE, BASE.replace(b"- 5\n", b"- five"), b"- first\n" + BASE.replace(b"- 5\n", b"- five")),
        (BASE, b"", b""),
        (BASE + b"- ours\n", BASE.replace(b"- 5\n", b""), BASE.replace(b"- 5\n", b"- ours\n")),
        (BASE.replace(b"- 2\n", b"- two\n"), BASE.replace(b"- 3\n", b""), BASE.replace(b"2\n- 3\n", b"two\n")),
        (BASE.replace(b"\n", b"\r\n"), BASE, BASE.replace(b"\n", b"\r\n")),
    ],
)
def test_changes_of_different_lines_are_merged(ours: bytes, theirs: bytes, merged: bytes) -> None:
    assert apply_change(BASE, ours, theirs) == (merged, ())


def test_changes_of_the_same_lines_are_a_conflict_with_the_numbers_of_our_lines() -> None:
    ours = b"- new\n" + BASE.replace(b"- 3\n", b"- three\n")
    assert apply_change(BASE, ours, BASE.replace(b"- 3\n", b"- drei\n")).conflicts == ((5, 5),)
    assert apply_change(BASE, ours, BASE.replace(b"- 2\n- 3\n- 4\n", b"")).conflicts == ((4, 6),)


def test_lines_added_at_the_same_place_are_a_conflict() -> None:
    assert apply_change(BASE, BASE + b"- ours\n", BASE + b"- theirs\n").conflicts


texts = st.lists(st.sampled_from([b"a\n", b"b\n", b"c\n", b"d\n", b"\n"]), max_size=8).map(b"".join)


def merge_by_git(base: bytes, ours: bytes, theirs: bytes) -> bytes | None:
    with TemporaryDirectory() as folder:
        for name, data in (("ours", ours), ("base", base), ("theirs", theirs)):
            Path(folder, name).write_bytes(data)
        done = subprocess.run(["git", "merge-file", "-p", "ours", "base", "theirs"], cwd=folder, capture_output=True)
    return done.stdout if done.returncode == 0 else None


@given(texts, texts, texts)
@settings(max_examples=60)
def test_what_merges_holds_what_git_makes_of_it_or_git_sees_a_conflict(base: bytes, ours: bytes, theirs: bytes) -> None:
    merge = apply_change(base, ours, theirs)
    by_git = merge_by_git(base, ours, theirs)
    if not merge.conflicts and by_git is not None:
        assert sorted(merge.data.splitlines()) == sorted(by_git.splitlines())


@given(texts, texts)
def test_without_later_changes_a_merge_gives_their_version_exactly(base: bytes, theirs: bytes) -> None:
    assert apply_change(base, base, theirs) == (theirs, ())
    assert apply_change(base, theirs, base) == (theirs, ())
