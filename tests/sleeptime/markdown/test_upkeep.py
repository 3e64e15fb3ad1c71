"""The upkeep of a memory folder without a model: index, duplicates, dead links, dates, sizes (DREAM-10, DREAM-25)."""

import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from datetime import date
from pathlib import Path, PurePosixPath

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from circadia.sleeptime.markdown.entries import parse_entries
from circadia.sleeptime.markdown.memory_folder import read_folder
from circadia.sleeptime.markdown.upkeep import FolderLimits, FolderUpkeep, UpkeepRun
from tests.sleeptime.markdown.markdown_texts import markdown_files

pytestmark = pytest.mark.spec("DREAM-10", "DREAM-25")

FOLDERS = Path(__file__).parent / "folders"
DAY = date(2026, 11, 27)
FACTS = "".join(f"- fact {at}\n" for at in range(250))
FRONT = "---\nname: {0}\ndescription: about {0}\ntype: project\n---\n\n"


def write(root: Path, files: Mapping[str, str | bytes]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    return root


def tidy(root: Path, limits: FolderLimits | None = None) -> FolderUpkeep:
    """Write the upkeep of a folder, and check that there is none after it."""
    upkeep = UpkeepRun(read_folder(root), day=DAY, limits=limits).run()
    write(root, {str(path): data for path, data in upkeep.contents.items()})
    again = UpkeepRun(read_folder(root), day=DAY, limits=limits).run()
    assert (again.contents, again.retired) == ({}, [])
    return upkeep


def messages(upkeep: FolderUpkeep) -> list[str]:
    return list(upkeep.findings)


def read(root: Path, name: str) -> str:
    return (root / name).read_bytes().decode()


def entries(root: Path) -> Counter[bytes]:
    """Return the entries of all files by their bytes."""
    found: Counter[bytes] = Counter()
    for path in root.rglob("*.md"):
        document = parse_entries(path.read_bytes())
        found.update(document.raw(entry).rstrip() for entry in document.entries)
    return found


@pytest.fixture
def claude_code(tmp_path: Path) -> Path:
    return Path(shutil.copytree(FOLDERS / "claude_code", tmp_path / "memory"))


def test_the_folder_of_claude_code_gets_a_complete_index_and_loses_only_what_stands_twice(claude_code: Path) -> None:
    upkeep = tidy(claude_code)
    assert messages(upkeep) == [
        "MEMORY.md:9: '[Old tracker](reference_jira.md) — tickets before the move': 'reference_jira.md' is not there; "
        "it is retired",
        "project_freeze.md:17: 'yesterday' names no date; write the date itself",
        "project_freeze.md:16: 'Payment tests run  against the sandbox of the bank, never against a fake.': the same "
        "text stands there twice; it is retired",
        "MEMORY.md: 'reference_tickets.md' was not in the index, and now is",
    ]
    original = read(FOLDERS / "claude_code", "MEMORY.md")
    old, new = (
        "- [Old tracker](reference_jira.md) — tickets before the move\n",
        "- [Tickets](reference_tickets.md) — Bugs of the pipeline are in the project INGEST of the tracker\n",
    )
    assert read(claude_code, "MEMORY.md") == original.replace(old, new)
    freeze = read(FOLDERS / "claude_code", "project_freeze.md")
    repeated = "- Payment tests run  against the sandbox of the bank, never against a fake.\n"
    assert read(claude_code, "project_freeze.md") == freeze.replace(repeated, "")
    assert [retired.path.name for retired in upkeep.retired] == ["MEMORY.md", "project_freeze.md"]
    assert old.encode() in upkeep.retired[0].text
    assert b"Instead: project_freeze.md line 15\n" in upkeep.retired[1].text
    assert repeated.encode() in upkeep.retired[1].text


@pytest.mark.parametrize("name", ["codex", "openclaw", "letta"])
def test_folders_whose_index_is_no_list_of_files_stay_as_they_are(tmp_path: Path, name: str) -> None:
    root = Path(shutil.copytree(FOLDERS / name, tmp_path / "memory"))
    assert tidy(root).contents == {}


def test_a_missing_line_has_the_style_of_the_lines_for_files_of_its_kind(tmp_path: Path) -> None:
    index = "# Index\r\n\r\n## People\r\n* [Ada](ada.md): the owner\r\n\r\n## Work\r\n* [Shop](shop.md): the shop"
    user = "---\nname: {0}\ndescription: knows {0}\ntype: user\n---\n\nText.\n"
    write(tmp_path, {"MEMORY.md": index, "ada.md": user.format("Ada"), "shop.md": FRONT.format("Shop") + "Text.\n"})
    write(tmp_path, {"Jörg K.md": user.format("Jörg [K]"), "deep/more.md": "# More\n\nThe first words.\n"})
    tidy(tmp_path)
    assert read(tmp_path, "MEMORY.md") == (
        "# Index\r\n\r\n## People\r\n* [Ada](ada.md): the owner\r\n* [Jörg (K)](Jörg%20K.md): knows Jörg [K]\r\n\r\n"
        "## Work\r\n* [Shop](shop.md): the shop\r\n* [More](deep/more.md): The first words."
    )


def test_an_empty_index_gets_a_line_for_each_topic_but_not_for_the_notes_of_a_day(tmp_path: Path) -> None:
    write(tmp_path, {"MEMORY.md": "# Memory\n", "a.md": "One fact.\n", "memory/2026-11-20.md": "- x\n"})
    tidy(tmp_path)
    assert read(tmp_path, "MEMORY.md") == "# Memory\n\n- [a](a.md) — One fact.\n"


def test_a_topic_behind_another_linked_file_needs_no_line(tmp_path: Path) -> None:
    write(tmp_path, {"MEMORY.md": "- [People](people/MEMORY.md) — all\n", "people/ada.md": "Ada.\n"})
    write(tmp_path, {"people/MEMORY.md": "- [Ada](ada.md)\n- [Own](../own.md)\n", "own.md": "Own.\n"})
    assert tidy(tmp_path).contents == {}


def test_links_that_lead_out_or_nowhere_are_never_followed_and_a_dead_one_in_a_text_is_only_reported(
    tmp_path: Path,
) -> None:
    out = "[up](../../etc/passwd), [root](/etc/passwd), [web](https://example.org/x.md), [y](http://[)"
    write(tmp_path, {"MEMORY.md": f"- [A](A.MD) — a\n\nSee [gone](gone.md#part).\n\nSee {out}.\n"})
    write(tmp_path, {"a.md": f"See [gone](gone.md).\n\n- See [x](%ff.md), {out}.\n"})
    upkeep = tidy(tmp_path)
    assert upkeep.contents == {}
    assert messages(upkeep) == [
        "MEMORY.md:3: the link to 'gone.md' leads nowhere",
        "a.md:1: the link to 'gone.md' leads nowhere",
        "a.md:3: the link to '\ufffd.md' leads nowhere",
    ]


def test_the_same_text_in_other_sections_or_files_stays_and_is_reported(tmp_path: Path) -> None:
    fact = "- The server listens on port 8080.\n"
    write(
        tmp_path, {"MEMORY.md": "- [A](a.md)\n- [B](b.md)\n", "a.md": f"# Shop\n{fact}\n# Bank\n{fact}", "b.md": fact}
    )
    upkeep = tidy(tmp_path)
    assert upkeep.contents == {}
    assert messages(upkeep) == ["a.md:2: 3 places have the same text"]


def test_of_a_duplicate_the_pinned_one_stays(tmp_path: Path) -> None:
    write(tmp_path, {"MEMORY.md": "- one  fact\n- one fact <!-- keep -->\n- one fact\n"})
    tidy(tmp_path)
    assert read(tmp_path, "MEMORY.md") == "- one fact <!-- keep -->\n"


def test_read_only_and_pinned_files_stay_and_are_reported(tmp_path: Path) -> None:
    files = {"MEMORY.md": "- [A](a.md)\n- [B](b.md)\n", "a.md": "- x\n- x\n", "b.md": "<!-- keep -->\n- x\n- x\n"}
    write(tmp_path, files)
    (tmp_path / "a.md").chmod(0o444)
    upkeep = tidy(tmp_path)
    assert (upkeep.contents, upkeep.retired) == ({}, [])
    assert [message for message in messages(upkeep) if "not tidied: the file is" in message]


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
@pytest.mark.parametrize(("number", "text"), [(250, "fact {0}"), (150, "fact {0} " + "x" * 300)])
def test_an_index_keeps_200_lines_and_25_kb_and_the_rest_moves_to_a_file_that_it_links_to(
    tmp_path: Path, line_end: str, number: int, text: str
) -> None:
    lines = ["# Memory", "", "## Facts", *(f"- {text.format(at)}" for at in range(number))]
    write(tmp_path, {"MEMORY.md": line_end.join([*lines, ""])})
    before = entries(tmp_path)
    tidy(tmp_path)
    index, part = ((tmp_path / name).read_bytes() for name in ("MEMORY.md", "MEMORY-part2.md"))
    assert len(index.splitlines()) <= 200
    assert len(index) <= 25_000
    assert len(index.splitlines()) > 195 or len(index) > 24_000
    link = "- [Memory (2)](MEMORY-part2.md)"
    assert index.decode().splitlines()[-1] == link
    assert part.decode().startswith(line_end.join(["# Memory", "", "## Facts", "", "- fact "]))
    assert entries(tmp_path) - before == Counter([link.encode()])
    assert not before - entries(tmp_path)
    assert [line for line in (index + part).decode().splitlines() if line.startswith("- fact")] == lines[3:]


def test_later_overflow_goes_to_the_same_file_and_new_topics_stay_reachable(tmp_path: Path) -> None:
    topics = {f"topic{at:03}.md": FRONT.format(f"T{at}") + f"Fact {at}.\n" for at in range(40)}
    write(tmp_path, {"MEMORY.md": "# Memory\n", **topics})
    limits = FolderLimits(index_lines=30)
    tidy(tmp_path, limits)
    assert sorted(path.name for path in tmp_path.glob("MEMORY*")) == ["MEMORY-part2.md", "MEMORY.md"]
    assert read(tmp_path, "MEMORY-part2.md").startswith(
        "---\nname: MEMORY-part2\ndescription: More of MEMORY.md\ntype: reference\n---\n\n# Memory\n\n- [T"
    )
    write(tmp_path, {f"late{at}.md": FRONT.format(f"L{at}") + "Late.\n" for at in range(5)})
    tidy(tmp_path, limits)
    assert sorted(path.name for path in tmp_path.glob("MEMORY*")) == ["MEMORY-part2.md", "MEMORY.md"]
    index, part = read(tmp_path, "MEMORY.md"), read(tmp_path, "MEMORY-part2.md")
    assert len(index.splitlines()) <= 30
    assert all(f"]({name})" in index + part for name in [*topics, *(f"late{at}.md" for at in range(5))])
    assert index.count("MEMORY-part2.md") == 1


@pytest.mark.parametrize("part", ["```\nopen code\n", "<!-- keep -->\n- mine\n"])
def test_overflow_never_goes_to_a_part_that_is_pinned_or_would_hide_it(tmp_path: Path, part: str) -> None:
    write(tmp_path, {"MEMORY.md": f"{FACTS}- [Rest](MEMORY-part2.md) — more\n", "MEMORY-part2.md": part})
    before = entries(tmp_path)
    tidy(tmp_path)
    assert read(tmp_path, "MEMORY-part2.md") == part
    assert "- fact 249\n" in read(tmp_path, "MEMORY-part3.md")
    assert read(tmp_path, "MEMORY.md").endswith("- [Rest](MEMORY-part2.md) — more\n- [MEMORY (3)](MEMORY-part3.md)\n")
    assert not before - entries(tmp_path)


@pytest.mark.spec("DREAM-40")
def test_a_log_of_a_day_is_neither_split_nor_tidied(tmp_path: Path) -> None:
    """D4"""
    log = "- The same line of a log.\n" * 2_000
    write(tmp_path, {"MEMORY.md": "- [Log](2026-11-20.md)\n", "2026-11-20.md": log})
    tidy(tmp_path)
    assert read(tmp_path, "2026-11-20.md") == log
    assert sorted(path.name for path in tmp_path.iterdir()) == ["2026-11-20.md", "MEMORY.md"]


def test_a_topic_of_more_than_40_kb_is_split_into_parts_that_link_to_the_next(tmp_path: Path) -> None:
    facts = "".join(f"- fact {at} {'x' * 1_000}\n  - nested {at}\n" for at in range(120))
    text = FRONT.format("Long") + f"# Long\n\n{facts}\n```\ncode\n```\n"
    write(tmp_path, {"MEMORY.md": "- [Long](long.md)\n", "long.md": text})
    before = entries(tmp_path)
    tidy(tmp_path)
    parts = [tmp_path / f"long{part}.md" for part in ("", "-part2", "-part3", "-part4")]
    assert sorted(tmp_path.iterdir()) == sorted([tmp_path / "MEMORY.md", *parts])
    assert all(part.stat().st_size <= 40_000 and part.read_text().startswith(FRONT.format("Long")) for part in parts)
    assert not before - entries(tmp_path)
    assert parts[0].read_text().endswith("\n- [Long (2)](long-part2.md)\n")
    assert parts[3].read_text().endswith("```\ncode\n```\n")
    assert sum(entries(tmp_path).values()) == sum(before.values()) + 3


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (FACTS + "- mine <!-- keep -->\n", "line 251 is pinned and behind the limit"),
        ("<!-- keep -->\n" + FACTS, "the file is pinned"),
        ("# T\n\n```\n" + "code\n" * 250 + "```\n\n- [A](a.md)\n", "one entry or block in it is longer than the limit"),
        (FACTS + "\nSee [a][1].\n\n[1]: a.md\n", "it defines links for several places"),
    ],
)
def test_an_index_that_cannot_be_shortened_without_a_loss_stays_and_says_why(
    tmp_path: Path, text: str, reason: str
) -> None:
    write(tmp_path, {"MEMORY.md": text, "a.md": "One.\n"})
    upkeep = UpkeepRun(read_folder(tmp_path), day=DAY).run()
    assert upkeep.contents == {}
    assert any(reason in message for message in messages(upkeep))


def test_upkeep_builds_on_the_contents_that_a_dream_is_about_to_write(tmp_path: Path) -> None:
    write(tmp_path, {"MEMORY.md": "- [A](a.md) — a\n", "a.md": "- x\n"})
    changed = {PurePosixPath("a.md"): b"- x\n- y\n- y\n", PurePosixPath("new.md"): b"# New\n\n- z\n"}
    upkeep = UpkeepRun(read_folder(tmp_path), day=DAY, changed=changed).run()
    assert upkeep.contents == {
        PurePosixPath("MEMORY.md"): b"- [A](a.md) \xe2\x80\x94 a\n- [New](new.md) \xe2\x80\x94 z\n",
        PurePosixPath("a.md"): b"- x\n- y\n",
    }


def test_more_topic_files_than_200_are_reported_and_none_is_touched(tmp_path: Path) -> None:
    write(tmp_path, {"MEMORY.md": "# Memory\n", **{f"{at}.md": f"Fact {at}.\n" for at in range(201)}})
    upkeep = tidy(tmp_path)
    assert upkeep.contents == {}
    assert "more than 200; merge some" in messages(upkeep)[0]


@pytest.mark.parametrize("number", [100, pytest.param(10_000, marks=pytest.mark.slow)])
def test_a_folder_of_10_000_files_is_read_and_tidied_in_bounded_memory(tmp_path: Path, number: int) -> None:
    fact = "- The service in this topic listens on a port of its own, and needs a certificate of {0}.\n"
    for at in range(number):
        text = FRONT.format(f"T{at}") + "".join(fact.format(f"{at}.{line}") for line in range(10))
        write(tmp_path, {f"d{at % 100}/topic {at}.md": text})
    write(tmp_path, {"MEMORY.md": "".join(f"- [T{at}](<d{at % 100}/topic {at}.md>)\n" for at in range(number))})
    code = (
        "import sys, resource\n"
        "from datetime import date\n"
        "from pathlib import Path\n"
        "from circadia.sleeptime.markdown.folder_bank import take_snapshot\n"
        "from circadia.sleeptime.markdown.upkeep import UpkeepRun\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "snapshot = take_snapshot(Path(sys.argv[1]))\n"
        "folder = snapshot.folder\n"
        "upkeep = UpkeepRun(folder, day=date(2026, 11, 27)).run()\n"
        "print(len(folder.files), len(upkeep.findings), "
        "(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)"
    )
    done = subprocess.run([sys.executable, "-c", code, tmp_path], capture_output=True, text=True, check=True)
    files, findings, mebibytes = map(int, done.stdout.split())
    assert files == number + 1
    assert findings < 20
    assert mebibytes < 150, "its files have 10 MB, of which a dream keeps the blocks"


OPEN = b"```\ncode\n- no entry\n```\n```\ncode\n- no entry\n```\n<!-- open\n"
TWO_TITLES = b"# Title\n<!-- keep -->\n# Title\n- [Title](file.md) \xe2\x80\x94 hook\n"


@settings(max_examples=40)
@example({"a.md": b"", "MEMORY.md": OPEN})
@example({"a.md": b"", "MEMORY.md": TWO_TITLES})
@given(st.dictionaries(st.sampled_from(["MEMORY.md", "a.md", "b.md", "d/c.md"]), markdown_files(), min_size=1))
def test_whatever_a_folder_holds_no_entry_is_lost_and_a_second_run_has_nothing_to_do(
    tmp_path_factory: pytest.TempPathFactory, files: dict[str, bytes]
) -> None:
    root = write(tmp_path_factory.mktemp("memory"), files)
    before = entries(root)
    upkeep = tidy(root, FolderLimits(index_lines=8, index_bytes=200, topic_bytes=150))
    retired = b"".join(entry.text for entry in upkeep.retired)
    lost = before - entries(root)
    assert sum(lost.values()) <= len(upkeep.retired)
    assert all(raw in retired for raw in lost)


def test_an_index_with_an_open_comment_at_its_end_takes_lines_once_its_end_is_elsewhere(tmp_path: Path) -> None:
    root = write(tmp_path, {"a.md": b"", "MEMORY.md": OPEN})
    tidy(root, FolderLimits(index_lines=8))
    assert (root / "MEMORY.md").read_text("utf-8").endswith("- [MEMORY (2)](MEMORY-part2.md)\n- [a](a.md)\n")
