"""What a person wrote into a block and says otherwise later: through a whole server, from the turn to the click."""

import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from circadia.sleeptime.operations.consolidate import ConsolidationAnswer, NoteDraft
from circadia.sleeptime.operations.rethink import BlockEdit, RethinkAnswer
from circadia.sleeptime.publish.claim_verifier import ClaimVerdicts
from circadia.testing.rule_based_model import parse_rows
from circadia.testing.upstream import MockUpstream
from tests.cli.terminal import run
from tests.interaction.live import ADMIN, KEY, Live, live

TIER: dict[str, Any] = {
    "when": "manual", "verify": "model", "model": {"upstream": "openai", "name": "gpt-5-mini"},
    "operations": {name: {"enabled": False} for name in ("contradictions", "reflect", "compress", "precompute")},
}  # fmt: skip
LINE = "Dr. Aslan: 555-0100, never before nine."
LATER = "Dr. Aslan: 555-0199, never before nine."


def said_now(data: str) -> list[str]:
    return [row.key for row in parse_rows(data) if row.part == "Said now"]


class Sleeper:
    """A scripted model that notes what is said, and edits the block as it is told."""

    def __init__(self, *edits: Mapping[str, str]) -> None:
        self.edits = edits
        self.asked: list[str] = []
        self.verdict = "said"

    def __call__(self, request: dict[str, Any]) -> str:
        parts = [each["content"] for each in request["messages"]]
        prompt = "\n".join(each if isinstance(each, str) else each[-1]["text"] for each in parts)
        self.asked.append(prompt)
        return self._answer(prompt).model_dump_json()

    def _answer(self, prompt: str) -> BaseModel:
        if "You judge whether" in prompt:
            keys = re.findall(r"(?m)^(c\d+) ", prompt)
            return ClaimVerdicts.model_validate({"verdicts": [{"id": key, "verdict": self.verdict} for key in keys]})
        if "keep the short texts" in prompt:
            last = [row.key for row in parse_rows(prompt) if row.part == "New notes"][-1]
            return RethinkAnswer(edits=[BlockEdit.model_validate({"ids": [last], **edit}) for edit in self.edits])
        text = next(row.text for row in parse_rows(prompt) if row.part == "Said now")
        return ConsolidationAnswer(notes=[NoteDraft(text=f"Ann says: {text}", ids=said_now(prompt))])


@asynccontextmanager
async def sleeping(folder: Path, model: Sleeper) -> AsyncGenerator[Live]:
    async with (
        MockUpstream(key=KEY, reply=model) as provider,
        live(folder, banks={"ann": {}}, sleeptime=TIER, provider=provider) as at,
    ):
        assert (await at.rest("PUT", "/banks/ann/blocks/human", {"value": f"Ann is a nurse.\n{LINE}"}))[0] == 200
        yield at


async def passed(at: Live, text: str) -> str:
    """Let Ann say something, and a pass read it; return its id."""
    assert (await at.rest("POST", "/banks/ann/episodes", {"text": text, "speaker": "ann"}))[0] == 201
    ended = (await at.rest("POST", "/banks/ann/passes", {"wait_seconds": 60}))[1]
    assert ended["status"] in ("succeeded", "no_change"), ended
    return ended["id"]


async def value(at: Live) -> str:
    return (await at.rest("GET", "/banks/ann/blocks/human"))[1]["value"]


@pytest.mark.spec("SLEEP-30", "SLEEP-32", "SLEEP-33")
async def test_what_a_person_says_later_than_they_wrote_is_proposed_whole_and_once_and_written_by_a_click(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = Sleeper({"label": "human", "old_text": "555-0100", "new_text": "555-0199"})
    async with sleeping(tmp_path, model) as at:
        monkeypatch.setenv("CIRCADIA_URL", at.url)
        monkeypatch.setenv("CIRCADIA_ADMIN_TOKEN", ADMIN)
        first = await passed(at, "Dr. Aslan has the number 555-0199 now.")
        judged = next(each for each in model.asked if "You judge whether" in each)
        assert f"## Replaced by c2\n| {LINE}\n## Claims\n" in judged
        assert re.search(rf"(?m)^c2 \[e1\] {re.escape(LATER)}$", judged)
        (waits,) = (await at.rest("GET", "/proposals"))[1]["proposals"]
        assert (waits["before"]["value"], waits["after"]["value"]) == (
            f"Ann is a nurse.\n{LINE}", f"Ann is a nurse.\n{LATER}",
        )  # fmt: skip
        diff = await run("passes", "diff", first)
        assert f"-{LINE}\n" in diff.out
        assert f"+{LATER}\n" in diff.out
        assert await value(at) == f"Ann is a nurse.\n{LINE}", "nothing of a person's is overwritten by itself"
        again = await passed(at, "The number of Dr. Aslan is 555-0199, as I said.")
        refused = (await at.rest("GET", f"/passes/{again}/changes?state=refused"))[1]["changes"]
        assert [each["why"] for each in refused] == ["the same edit waits for a person already"]
        assert [each["number"] for each in (await at.rest("GET", "/proposals"))[1]["proposals"]] == [waits["number"]]
        assert (await at.rest("POST", f"/passes/{first}/accept", {"numbers": [waits["number"]]}))[0] == 200
        assert await value(at) == f"Ann is a nurse.\n{LATER}"
        model.edits = ({"label": "human", "old_text": LATER, "new_text": "Dr. Aslan: 555-0200."},)
        await passed(at, "Dr. Aslan has 555-0200 today.")
        assert await value(at) == f"Ann is a nurse.\n{LATER}", "the rest of the line is still the person's"
        model.edits = ({"label": "human", "old_text": "555-0199", "new_text": "555-0200"},)
        await passed(at, "As I said, Dr. Aslan has the number 555-0200.")
        assert await value(at) == f"Ann is a nurse.\n{LATER.replace('0199', '0200')}", "a pass wrote the number"


@pytest.mark.spec("SLEEP-33", "SLEEP-83")
async def test_the_diff_shows_the_text_of_each_refused_edit_alone_and_its_own_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = Sleeper(
        {"label": "human", "new_text": "Ann lives in Faro."},
        {"label": "human", "new_text": "Ann is called back."},
        {"label": "nowhere", "new_text": "Ann calls."},
        {"label": "human", "old_text": "Ann is a nurse.", "new_text": ""},
    )
    async with sleeping(tmp_path, model) as at:
        monkeypatch.setenv("CIRCADIA_URL", at.url)
        monkeypatch.setenv("CIRCADIA_ADMIN_TOKEN", ADMIN)
        model.verdict = "not_said"
        key = await passed(at, "Please have Ann called back.")
        changes = (await at.rest("GET", f"/passes/{key}/changes?state=refused"))[1]["changes"]
        edits = [each for each in changes if each["kind"] == "write_block"][:4]
        assert [(each["after"]["value"].split("\n"), each["why"]) for each in edits] == [
            (["Ann is a nurse.", LINE, "Ann lives in Faro."], "'Faro' is in no source"),
            (["Ann is a nurse.", LINE, "Ann is called back."], "its sources do not say it, as the model judges"),
            (["Ann calls."], "there is no block 'nowhere' to edit"),
            ([LINE], "its sources do not show that it is over, as the model judges"),
        ]
        diff = (await run("passes", "diff", key)).out
        for text in ("+Ann lives in Faro.", "+Ann is called back.", "+Ann calls.", "-Ann is a nurse."):
            assert text in diff
