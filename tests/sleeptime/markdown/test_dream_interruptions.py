"""Dreams that end early: what they had proposed is neither lost nor in the way of the next one."""

import asyncio
from pathlib import Path

import pytest
from pydantic import BaseModel

from circadia.errors import Conflict
from circadia.llm.chat_model import ModelAnswerError, Prompt
from circadia.records.dream_job import DreamMode
from circadia.sleeptime.engine import pass_runner
from circadia.sleeptime.markdown.dream_state import DreamOutcome, load_state
from circadia.sleeptime.markdown.folder_edits import FolderAnswer
from circadia.sleeptime.publish.claim_verifier import ClaimVerdicts
from circadia.testing.scripted_model import ScriptedChatModel
from tests.sleeptime.markdown.dream_stand import DreamStand, FactScript

CHECK = "Ann wants make check to run before each commit."
SAID = "Please run make check before each commit."
SCRIPT = FactScript({"make check": CHECK})


@pytest.fixture
def stand(tmp_path: Path) -> DreamStand:
    stand = DreamStand(tmp_path)
    stand.session("s1", SAID)
    return stand


async def interrupt(stand: DreamStand, mode: DreamMode) -> None:
    """Cancel a dream while the model verifies what it has proposed."""
    began = asyncio.Event()

    async def answer(prompt: Prompt, output: type[BaseModel]) -> BaseModel:
        if output is ClaimVerdicts:
            began.set()
            await asyncio.Event().wait()
        return SCRIPT(prompt, output)

    stand.model = ScriptedChatModel(answer)
    dreaming = asyncio.ensure_future(stand.dream(mode))
    await asyncio.wait_for(began.wait(), 30)
    dreaming.cancel()
    with pytest.raises(asyncio.CancelledError):
        await dreaming
    stand.model = ScriptedChatModel(SCRIPT)


@pytest.mark.spec("DREAM-02", "DREAM-22")
@pytest.mark.parametrize(
    ("first", "second", "outcome"),
    [
        (DreamMode.DRY_RUN, DreamMode.PROPOSE, DreamOutcome.PROPOSED),
        (DreamMode.PROPOSE, DreamMode.DRY_RUN, DreamOutcome.SHOWN),
    ],
)
async def test_after_an_interrupted_dream_one_of_another_mode_has_all_that_was_said(
    stand: DreamStand, first: DreamMode, second: DreamMode, outcome: DreamOutcome
) -> None:
    before = stand.contents()
    await interrupt(stand, first)
    report = await stand.dream(second)
    assert (report.state, report.added) == (outcome, 1)
    assert stand.contents() == before
    if second is DreamMode.DRY_RUN:
        assert f"+- {CHECK}" in report.diff
        assert (await stand.dream()).added == 1
    await stand.accept()
    assert stand.read("learned.md").count(CHECK) == 1
    assert (await stand.dream()).state is DreamOutcome.UNCHANGED


@pytest.mark.spec("DREAM-02", "DREAM-32")
async def test_a_dream_whose_model_fails_midway_proposes_what_it_has_and_the_next_one_reads_the_rest(
    stand: DreamStand,
) -> None:
    for number in range(4):
        stand.session(f"t{number}", *(f"Talk {number}.{turn}: {'word ' * 300}" for turn in range(5)))
    tabs = "Ann wants tabs in Makefiles."
    stand.session("z", "Makefiles need tabs, always use tabs there.")
    script = FactScript({"make check": CHECK, "need tabs": tabs})

    def fail(prompt: Prompt, output: type[BaseModel]) -> BaseModel | ModelAnswerError:
        fails = output is FolderAnswer and SAID not in prompt.data
        return ModelAnswerError("the answer is no JSON") if fails else script(prompt, output)

    stand.model = ScriptedChatModel(fail)
    report = await stand.dream()
    assert (report.state, report.added) == (DreamOutcome.PROPOSED, 1)
    assert "no JSON" in report.detail
    assert load_state(stand.root).failures == 0
    stand.model = ScriptedChatModel(script)
    await stand.accept()
    assert (await stand.dream()).added == 1
    await stand.accept()
    assert (stand.read("learned.md").count(CHECK), stand.read("learned.md").count(tabs)) == (1, 1)
    assert (await stand.dream()).state is DreamOutcome.UNCHANGED


@pytest.mark.spec("DREAM-02", "DREAM-22")
async def test_an_interrupted_dream_that_had_proposed_something_is_finished_first(
    stand: DreamStand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pass_runner, "PAGE", 4)
    stand.session("s2", "Makefiles need tabs, always use tabs there.")
    tabs = "Ann wants tabs in Makefiles."
    script = FactScript({"make check": CHECK, "need tabs": tabs})
    began = asyncio.Event()

    async def answer(prompt: Prompt, output: type[BaseModel]) -> BaseModel:
        if output is FolderAnswer and "need tabs" in prompt.data:
            began.set()
            await asyncio.Event().wait()
        return script(prompt, output)

    stand.model = ScriptedChatModel(answer)
    dreaming = asyncio.ensure_future(stand.dream(instructions="Look for rules."))
    await asyncio.wait_for(began.wait(), 30)
    dreaming.cancel()
    with pytest.raises(asyncio.CancelledError):
        await dreaming
    stand.model = ScriptedChatModel(script)
    for mode in (DreamMode.DRY_RUN, DreamMode.PROPOSE):
        with pytest.raises(Conflict, match=r"finish it first, with the instructions 'Look for rules\.'"):
            await stand.dream(mode)
    assert (await stand.dream(instructions="Look for rules.")).added == 2
    await stand.accept()
    assert (stand.read("learned.md").count(CHECK), stand.read("learned.md").count(tabs)) == (1, 1)
