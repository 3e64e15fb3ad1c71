"""What a person decides about a proposal, and what becomes of it."""

import os
import socket
from contextlib import nullcontext
from pathlib import Path, PurePosixPath

import pytest

from circadia.errors import InvalidRequest, NotFound, StartError, StorageUnavailable
from circadia.records.dream_job import DreamMode
from circadia.sleeptime.markdown import publication
from circadia.sleeptime.markdown.dream_state import DreamOutcome, load_state, save_state
from circadia.testing.scripted_model import ScriptedChatModel
from tests.sleeptime.markdown.dream_stand import DreamStand, FactScript

MOVED = "The staging database of the project Heron is on port 5499."
CHECK = "Ann wants make check to run before each commit."
SAID = ("The staging database of the project Heron is on port 5499 now.", "Please run make check before each commit.")
USER, DATABASE = PurePosixPath("user.md"), PurePosixPath("database.md")
TWICE = "- Ann writes short messages.\n- Ann writes short messages.\n"


@pytest.fixture
def stand(tmp_path: Path) -> DreamStand:
    return DreamStand(tmp_path, {"staging database": MOVED, "make check": CHECK})


def proposed_files(stand: DreamStand) -> set[str]:
    return {str(path) for each in publication.list_history(stand.root) for path in each.proposed}


@pytest.mark.spec("DREAM-22")
async def test_a_file_is_accepted_alone_and_the_upkeep_of_others_waits(stand: DreamStand) -> None:
    stand.write("user.md", TWICE)
    stand.session("s1", SAID[0])
    report = await stand.dream()
    assert (report.replaced, report.retired) == (1, 1)
    before = stand.contents()
    await stand.accept(DATABASE)
    assert {name for name, data in stand.contents().items() if data != before[name]} == {"database.md"}
    assert {"user.md", "MEMORY.md"} <= proposed_files(stand)
    await stand.accept(USER)
    assert stand.read("user.md") == "- Ann writes short messages.\n"
    with pytest.raises(NotFound, match=r"concerns database\.md"):
        await stand.accept(DATABASE)
    await stand.accept()
    assert "(user.md)" in stand.read("MEMORY.md")
    assert (await stand.dream()).state is DreamOutcome.UNCHANGED


@pytest.mark.spec("DREAM-22")
async def test_upkeep_that_a_person_has_refused_does_not_come_back(stand: DreamStand) -> None:
    stand.write("user.md", TWICE)
    before = stand.contents()
    await stand.dream()
    assert await stand.act(lambda dream: dream.refuse([USER])) == 1
    assert proposed_files(stand) == {"MEMORY.md"}
    assert await stand.act(lambda dream: dream.refuse()) == 1
    save_state(stand.root, load_state(stand.root), is_accepted=True)
    assert (await stand.dream(DreamMode.AUTO)).state is DreamOutcome.UNCHANGED
    assert stand.contents() == before
    stand.write("user.md", f"{TWICE}- Ann drinks tea.\n- Ann drinks tea.\n")
    assert (await stand.dream()).retired == 2, "another change of the file is shown"


@pytest.mark.spec("DREAM-22")
@pytest.mark.parametrize("said", [(), SAID])
async def test_a_dry_run_leaves_a_proposal_that_waits_where_it_is(stand: DreamStand, said: tuple[str, ...]) -> None:
    stand.write("user.md", TWICE)
    stand.session("s1", *said)
    view = Path((await stand.dream()).view)
    waiting = proposed_files(stand)
    times = {path: path.lstat().st_mtime_ns for path in (view, *view.rglob("*"))}
    report = await stand.dream(DreamMode.DRY_RUN)
    assert report.state is DreamOutcome.SHOWN
    assert "-- Ann writes short messages.\n" in report.diff
    assert {path: path.lstat().st_mtime_ns for path in (view, *view.rglob("*"))} == times
    assert proposed_files(stand) == waiting
    assert (await stand.accept()).state is DreamOutcome.PUBLISHED


@pytest.mark.spec("DREAM-11", "DREAM-25")
async def test_entries_that_stand_twice_count_as_taken_out(stand: DreamStand) -> None:
    save_state(stand.root, load_state(stand.root), is_accepted=True)
    stand.write("user.md", f"{TWICE}- Ann drinks tea.\n- Ann drinks tea.\n")
    stand.write("MEMORY.md", stand.read("MEMORY.md") + "- [Ann](user.md)\n")
    report = await stand.dream(DreamMode.AUTO)
    assert (report.state, report.retired) == (DreamOutcome.PROPOSED, 2)
    assert "2 entries" in report.detail, "6 entries, and 5 % of them are less than one"
    assert "0 facts added, 0 replaced, 2 retired in 1 file" in report.describe()


@pytest.mark.spec("DREAM-21", "DREAM-22")
async def test_a_dream_that_could_write_no_file_is_a_proposal_and_not_accepted(
    stand: DreamStand, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand.session("s1", SAID[0])
    await stand.dream()
    publish = publication.publish

    def change_first(*given: object) -> object:
        stand.write("database.md", "- Somebody else was faster.\n")
        return publish(*given)  # pyright: ignore[reportArgumentType]

    with monkeypatch.context() as patched:
        patched.setattr(publication, "publish", change_first)
        report = await stand.accept()
    assert (report.state, report.files) == (DreamOutcome.PROPOSED, [])
    assert Path(report.view).is_dir()
    assert not load_state(stand.root).is_accepted


@pytest.mark.spec("DREAM-23")
async def test_a_dream_is_taken_back_after_a_later_one_that_changed_the_lines_beside_it(stand: DreamStand) -> None:
    stand.session("s1", *SAID)
    await stand.dream()
    await stand.accept()
    facts = {"production database": "The production database is on port 6000.", "tabs": "Ann wants tabs in Makefiles."}
    stand.model = ScriptedChatModel(FactScript(facts))
    stand.session("s2", "The production database is on port 6000 now.", "Makefiles need tabs, always tabs.")
    await stand.dream()
    await stand.accept()
    _, first = publication.list_history(stand.root)
    assert not (await stand.act(lambda dream: dream.undo(first.id))).problems
    assert "port 5433.\n- The production database is on port 6000. <!--" in stand.read("database.md")
    learned = stand.read("learned.md")
    assert learned.startswith("---\nname: learned\n")
    assert CHECK not in learned
    assert facts["tabs"] in learned
    retired = stand.read(".circadia/retired/database.md")
    assert "port 5432" in retired
    assert "port 5433" not in retired


@pytest.mark.spec("DREAM-32")
@pytest.mark.parametrize(
    "text",
    [
        f"- {MOVED}",
        f"1. {MOVED}",
        f"> {MOVED}",
        f"{MOVED} <!-- keep -->",
        f"<!-- {MOVED}",
        f"{MOVED}\x1b[2J",
        f"{MOVED}\n---",
    ],
)
async def test_a_note_that_reads_otherwise_in_markdown_is_written_once_and_blocks_nothing(
    stand: DreamStand, text: str
) -> None:
    stand.model = ScriptedChatModel(FactScript({"staging database": text}))
    stand.session("s1", SAID[0])
    assert (await stand.dream()).replaced == 1
    await stand.accept()
    written = stand.read("database.md")
    assert written.count("port 5499") == 1
    assert "<!-- keep -->" not in written
    assert "\x1b" not in written
    with pytest.raises(NotFound):
        await stand.accept()
    await stand.dream()
    assert stand.read("database.md") == written


@pytest.mark.spec("DREAM-32")
async def test_a_note_without_text_is_left_out_and_what_it_would_replace_stays(stand: DreamStand) -> None:
    stand.model = ScriptedChatModel(FactScript({"staging database": "---"}))
    stand.session("s1", SAID[0])
    before = stand.contents()
    report = await stand.dream()
    assert report.state is DreamOutcome.UNCHANGED
    assert any("no text" in reason for reason in report.left_out)
    assert stand.contents() == before


@pytest.mark.spec("DREAM-20")
@pytest.mark.parametrize("name", [".circadia", ".circadia/circadia.db"])
async def test_a_symlink_in_place_of_circadias_own_data_is_refused(
    stand: DreamStand, tmp_path: Path, name: str
) -> None:
    outside = tmp_path / "outside"
    if name == ".circadia":
        (stand.root / name).rename(outside)
    else:
        outside.mkdir()
    before = {path: path.read_bytes() for path in outside.rglob("*") if path.is_file()}
    (stand.root / name).symlink_to(outside if name == ".circadia" else outside / "new.db")
    with pytest.raises(InvalidRequest, match="symlink"):
        await stand.dream()
    with pytest.raises(InvalidRequest, match="symlink") if name == ".circadia" else nullcontext():
        save_state(stand.root, load_state(stand.root), is_accepted=True)
    assert {path: path.read_bytes() for path in outside.rglob("*") if path.is_file()} == before


@pytest.mark.spec("DREAM-20")
async def test_the_state_is_not_written_through_a_symlink(stand: DreamStand, tmp_path: Path) -> None:
    (tmp_path / "outside").write_bytes(b"theirs")
    (stand.root / ".circadia" / "dream.json.new").symlink_to(tmp_path / "outside")
    save_state(stand.root, load_state(stand.root), is_accepted=True)
    assert (tmp_path / "outside").read_bytes() == b"theirs"
    assert load_state(stand.root).is_accepted


@pytest.mark.spec("DREAM-22", "DREAM-25")
async def test_upkeep_that_a_person_has_merged_by_hand_waits_no_more(stand: DreamStand) -> None:
    stand.write("user.md", TWICE)
    view = Path((await stand.dream()).view)
    for path in view.rglob("*.md"):
        stand.write(str(path.relative_to(view)), path.read_bytes())
    assert (await stand.dream()).state is DreamOutcome.UNCHANGED
    assert not proposed_files(stand)
    assert not view.exists()


@pytest.mark.spec("DREAM-32")
async def test_without_its_database_a_folder_reads_the_sessions_anew(stand: DreamStand) -> None:
    stand.session("s1", *SAID)
    await stand.dream()
    database = stand.root / ".circadia" / "circadia.db"
    database.write_bytes(b"no database" * 1000)
    with pytest.raises(StartError, match="not a database"):
        await stand.dream()
    for path in database.parent.glob("circadia.db*"):
        path.unlink()
    assert (await stand.dream()).turns == 2
    await stand.accept()
    assert MOVED in stand.read("database.md")
    assert CHECK in stand.read("learned.md")


@pytest.mark.spec("DREAM-22", "DREAM-32")
async def test_a_folder_with_what_cannot_be_copied_is_proposed_all_the_same(stand: DreamStand) -> None:
    os.mkfifo(stand.root / "pipe")
    os.mkfifo(stand.root / "pipe.md")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(os.path.relpath(stand.root / "socket"))
        stand.session("s1", *SAID)
        report = await stand.dream()
    assert report.state is DreamOutcome.PROPOSED
    assert MOVED in (Path(report.view) / "database.md").read_text("utf-8")


@pytest.mark.spec("DREAM-32")
async def test_what_stands_in_the_place_of_the_state_is_named(stand: DreamStand) -> None:
    state = stand.root / ".circadia" / "dream.json"
    state.write_bytes(b"{")
    with pytest.raises(InvalidRequest, match=r"dream\.json is damaged.*delete it"):
        await stand.dream()
    state.unlink()
    state.mkdir()
    with pytest.raises(StorageUnavailable, match=r"it is no regular file: 'dream\.json'"):
        await stand.dream()


@pytest.mark.spec("DREAM-22", "DREAM-42")
@pytest.mark.parametrize("by_hand", ["merged", "edited"])
async def test_neither_a_proposal_that_is_merged_by_hand_nor_an_edit_lets_later_dreams_write(
    stand: DreamStand, by_hand: str
) -> None:
    """D6: consent is an accept, never an edit."""
    stand.session("s1", SAID[0])
    view = Path((await stand.dream()).view)
    edited = stand.read("database.md").replace("The staging database of the project Heron", "Heron's staging database")
    stand.write("database.md", (view / "database.md").read_bytes() if by_hand == "merged" else edited)
    stand.session("s2", SAID[1])
    if by_hand == "edited":
        assert "changed or removed meanwhile" in " ".join((await stand.dream(DreamMode.AUTO)).left_out)
    report = await stand.dream(DreamMode.AUTO)
    assert (report.state, load_state(stand.root).is_accepted) == (DreamOutcome.PROPOSED, False)
    await stand.accept()
    assert load_state(stand.root).is_accepted
