"""Three evenings of a bank whose facts change: what notes, searches and contexts say after each pass."""

import re
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from pydantic import BaseModel

from circadia.sleeptime.operations.compress import SummaryDraft
from circadia.sleeptime.operations.consolidate import ConsolidationAnswer, NoteDraft
from circadia.sleeptime.operations.contradictions import ComparisonAnswer, Contradiction
from circadia.sleeptime.operations.reflect import ReflectionAnswer
from circadia.sleeptime.operations.rethink import RethinkAnswer
from circadia.sleeptime.publish.claim_verifier import ClaimVerdict, ClaimVerdicts
from circadia.testing.rule_based_model import parse_rows
from circadia.testing.upstream import MockUpstream
from tests.interaction.live import KEY, Live, live

MONDAY = datetime(2026, 11, 2, 18, tzinfo=UTC)
TIER: dict[str, Any] = {
    "when": "manual", "model": {"upstream": "openai", "name": "gpt-5-mini"},
    "operations": {"precompute": {"enabled": False}},
}  # fmt: skip
BANK = "/banks/home"
PORT = "The staging database is on port 5499."
CHECKS = ("postgres listens on port 5499", "health: staging database 5499 ok")

Judge = Callable[[str, Sequence[str], Sequence[str]], ClaimVerdict]
"""Returns the verdict on a claim, by its text, the lines that it cites, and those that it ends."""


def say_all(claim: str, cited: Sequence[str], ended: Sequence[str]) -> ClaimVerdict:
    return ClaimVerdict(id="", verdict="said")


@dataclass(frozen=True, kw_only=True)
class Written:
    """A note that the model writes; what it names is told by a part of each line's text."""

    text: str
    ids: Sequence[str]
    replaces: Sequence[str] = ()
    ended: Sequence[str] = ()


def ending(text: str, new: str, old: str) -> Written:
    """Return a note that takes the place of one that holds no more."""
    return Written(text=text, ids=[new, old], replaces=[old], ended=[old])


@dataclass(kw_only=True)
class Model:
    """A tier's model that knows what to write of each evening, and names lines by what they say."""

    notes: Sequence[Written] = ()
    over: Mapping[str, str] = field(default_factory=dict[str, str])
    """Which note ends which, by a part of the text of each: what a comparison finds."""
    judge: Judge = say_all
    written: list[str] = field(default_factory=list[str])
    """The questions for notes."""

    def __call__(self, request: dict[str, Any]) -> str:
        rules, data = (_text_of(message) for message in (request["messages"][0], request["messages"][-1]))
        answers: Mapping[str, Callable[[], BaseModel]] = {
            "write the notes of a memory": lambda: self._write(data), "compare statements": lambda: self._compare(data),
            "You judge whether": lambda: self._verify(data), "You look at notes": lambda: ReflectionAnswer(beliefs=[]),
            "You keep the short texts": lambda: RethinkAnswer(edits=[]), "": lambda: SummaryDraft(text="", ids=[]),
        }  # fmt: skip
        return next(answer() for words, answer in answers.items() if words in rules).model_dump_json()

    def _write(self, data: str) -> BaseModel:
        self.written.append(data)
        rows = parse_rows(data)

        def keys(parts: Sequence[str]) -> list[str]:
            return [row.key for row in rows if any(part in row.text for part in parts)]

        drafts = [
            NoteDraft(text=one.text, ids=keys(one.ids), replaces=keys(one.replaces), ended=keys(one.ended))
            for one in self.notes
        ]
        return ConsolidationAnswer(notes=drafts)

    def _compare(self, data: str) -> BaseModel:
        rows = {row.key: row.text for row in parse_rows(data)}
        found = [
            Contradiction(now=rows[one], before=rows[other], holds=[one], ended=[other], verdict="replaced")
            for one, other in re.findall(r"(n\d+) with (n\d+)", data)
            if any(new in rows[one] and old in rows[other] for new, old in self.over.items())
        ]
        return ComparisonAnswer(found=found)

    def _verify(self, data: str) -> BaseModel:
        rows = {row.key: row.text for row in parse_rows(data)}
        verdicts: list[ClaimVerdict] = []
        for key, named, text in re.findall(r"(?m)^(c\d+)[^\[]* \[([^\]]*)\] (.*)$", data):
            cited, _, ends = named.partition(" ends ")
            lines = ([rows[each] for each in part.split() if each in rows] for part in (cited, ends))
            verdict = self.judge(text, *lines)
            still = [each for each in ends.split() if rows[each] in verdict.not_over]
            verdicts.append(verdict.model_copy(update={"id": key, "not_over": still}))
        return ClaimVerdicts(verdicts=verdicts)


def _text_of(message: Mapping[str, Any]) -> str:
    content = message["content"]
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


@dataclass
class Home:
    """A server with the bank `home`."""

    at: Live
    model: Model
    evening: int = 0

    async def said(self, speaker: str, *texts: str, trust: str = "person") -> None:
        for text in texts:
            body = {
                "text": text, "speaker": speaker, "trust": trust,
                "at": (MONDAY + timedelta(days=self.evening)).isoformat(),
            }  # fmt: skip
            assert (await self.at.rest("POST", f"{BANK}/episodes", body))[0] == 201

    async def dream(self, *notes: Written, **more: Any) -> None:
        """Run a pass over the evening, in which the model writes these notes."""
        self.model.notes = notes
        run = (await self.at.rest("POST", f"{BANK}/passes", {"wait_seconds": 60, **more}))[1]
        assert run["status"] in ("succeeded", "no_change"), run
        self.evening += 1

    async def notes(self) -> dict[str, str]:
        """Return the trust of each standing note by its text."""
        rows = (await self.at.rest("GET", f"{BANK}/notes"))[1]["notes"]
        return {row["text"]: row["trust"] for row in rows if row["retired_at"] is None}

    async def found(self, query: str) -> list[str]:
        """Return the texts that a search finds, the best first."""
        hits = (await self.at.rest("GET", f"{BANK}/search?q={quote(query)}&limit=10"))[1]["hits"]
        return [hit["text"] for hit in hits]

    async def context(self, query: str) -> str:
        return (await self.at.rest("GET", f"{BANK}/context?q={quote(query)}"))[1]["fitting"]

    async def demoted(self) -> set[str]:
        rows = (await self.at.rest("GET", f"{BANK}/episodes"))[1]["episodes"]
        return {row["text"] for row in rows if row["stale"]}


@asynccontextmanager
async def home(folder: Path, *, verify: str = "model", **more: Any) -> AsyncGenerator[Home]:
    model = Model(**more)
    async with (
        MockUpstream(key=KEY, reply=model) as provider,
        live(folder, banks={"home": {}}, sleeptime={**TIER, "verify": verify}, provider=provider) as at,
    ):
        yield Home(at, model)


DOG = "We live in Porto and our dog is called Ana."
LISBON = "Mara lives in Lisbon since 2026-11-03; before, until 2026-11-03, in Porto."
MOSS = "Jo arbeitet seit 2026-11-03 bei Moss; vorher, bis 2026-11-03, bei Kite."


@pytest.mark.spec("SLEEP-20", "SLEEP-22", "SLEEP-25", "SLEEP-89")
async def test_three_evenings_of_two_people_who_correct_what_they_said(tmp_path: Path) -> None:
    async with home(tmp_path) as one:
        await one.said("mara", DOG)
        await one.said("jo", "Ich arbeite bei Kite.")
        await one.said("shell", *CHECKS, trust="tool")
        await one.dream(
            Written(text="Mara lives in Porto.", ids=["live"]), Written(text="Mara's dog is called Ana.", ids=["dog"]),
            Written(text="Jo arbeitet bei Kite.", ids=["Kite"]), Written(text=PORT, ids=CHECKS),
        )  # fmt: skip
        assert await one.notes() == {
            "Mara lives in Porto.": "person", "Mara's dog is called Ana.": "person",
            "Jo arbeitet bei Kite.": "person", PORT: "tool",
        }  # fmt: skip

        await one.said("mara", "We have moved to Lisbon.", "Right, our staging database is on port 5499, use that.")
        await one.said("jo", "Ab heute bin ich bei Moss, nicht mehr bei Kite.")
        confirmed = "The staging database is on port 5499, and is to be used."
        await one.dream(
            ending(LISBON, "Lisbon", "lives in Porto"), ending(MOSS, "Moss", "Jo arbeitet"),
            Written(text=confirmed, ids=["Right", "port 5499."], replaces=["port 5499."]),
        )  # fmt: skip
        holds = {LISBON: "person", "Mara's dog is called Ana.": "person", MOSS: "person", confirmed: "person"}
        assert await one.notes() == holds
        assert await one.demoted() == {"Ich arbeite bei Kite."}, "the turn of two things has a note that holds"
        assert (await one.found("Wo arbeitet Jo, bei Kite?"))[0] == MOSS
        assert "jo (person, no longer valid): Ich arbeite bei Kite." in await one.context("Arbeite ich bei Kite?")

        await one.said("mara", "Our staging database has moved to port 5501.")
        moved = "The staging database is on port 5501 since 2026-11-04; before, until 2026-11-04, on port 5499."
        await one.dream(
            Written(text=moved, ids=["moved to port", "be used"], replaces=["be used"], ended=["be used", *CHECKS]),
            full=True,
        )
        del holds[confirmed]
        assert await one.notes() == {**holds, moved: "person"}
        said = "Right, our staging database is on port 5499, use that."
        assert await one.demoted() == {"Ich arbeite bei Kite.", said, *CHECKS}
        assert all("5501" in text for text in (await one.found("On which port is the staging database?"))[:2])
        assert DOG in await one.context("What is the name of our dog?")


@pytest.mark.spec("SLEEP-25", "SLEEP-89")
async def test_what_is_left_of_a_replaced_note_stays_though_its_turn_is_demoted(tmp_path: Path) -> None:
    left = "Mara's dog is called Ana."

    def judge(claim: str, cited: Sequence[str], ended: Sequence[str]) -> ClaimVerdict:
        return ClaimVerdict(id="", verdict="said", lost=left if claim == LISBON else "")

    async with home(tmp_path, judge=judge) as one:
        await one.said("mara", DOG)
        old = "Mara lives in Porto, with her dog Ana."
        await one.dream(Written(text=old, ids=["dog"]))
        await one.said("mara", "We have moved to Lisbon.")
        await one.dream(ending(LISBON, "Lisbon", "with her"))
        assert (set(await one.notes()), await one.demoted()) == ({LISBON, left}, {DOG})
        await one.said("mara", "Nothing else is new.")
        await one.dream(full=True)
        assert set(await one.notes()) == {LISBON, left}


@pytest.mark.spec("SLEEP-22", "SLEEP-31")
async def test_a_turn_of_an_ended_note_that_still_holds_keeps_its_weight(tmp_path: Path) -> None:
    office = "Our office has the number 12."

    def judge(claim: str, cited: Sequence[str], ended: Sequence[str]) -> ClaimVerdict:
        return ClaimVerdict(id="", verdict="said", not_over=[office] if claim == LISBON else [])

    async with home(tmp_path, judge=judge) as one:
        await one.said("mara", "We live in Porto.", office)
        await one.dream(Written(text="Mara lives in Porto, and the office is number 12.", ids=["Porto", "office"]))
        await one.said("mara", "We have moved to Lisbon.")
        await one.dream(ending(LISBON, "Lisbon", "office is"))
        assert await one.demoted() == {"We live in Porto."}


@pytest.mark.spec("SLEEP-50", "SLEEP-89")
@pytest.mark.parametrize("part", ["", "Mara rotates the deploy key on 2026-11-06."])
async def test_a_mention_of_something_else_gives_what_a_tool_said_no_persons_trust(tmp_path: Path, part: str) -> None:
    whole = "The vault has the deploy key, which Mara rotates on 2026-11-06."

    def judge(claim: str, cited: Sequence[str], ended: Sequence[str]) -> ClaimVerdict:
        if "vault" not in claim or any("vault" in line for line in cited):
            return ClaimVerdict(id="", verdict="said")
        return ClaimVerdict(id="", verdict="not_said", text=part)

    async with home(tmp_path, judge=judge) as one:
        await one.said("shell", "deploy key found in vault", "vault: deploy key ok", trust="tool")
        old = "The deploy key is in the vault."
        await one.dream(Written(text=old, ids=["deploy key"]))
        assert await one.notes() == {old: "tool"}
        await one.said("mara", "I rotate the deploy key on 2026-11-06.")
        await one.dream(Written(text=whole, ids=["rotate", "in the vault."], replaces=["in the vault."]))
        assert await one.notes() == {whole: "tool", **({part: "person"} if part else {})}
        assert len(one.model.written) == 2, "what stands with other sources is not asked for again"


@pytest.mark.spec("SLEEP-50", "SLEEP-89")
@pytest.mark.parametrize(("verify", "trust"), [("model", "person"), ("off", "tool")])
async def test_what_a_tool_said_gains_a_persons_trust_only_by_a_judge(tmp_path: Path, verify: str, trust: str) -> None:
    async with home(tmp_path, verify=verify) as one:
        await one.said("shell", *CHECKS, trust="tool")
        await one.dream(Written(text=PORT, ids=CHECKS))
        await one.said("mara", "Yes, the staging database is on port 5499.")
        text = f"{PORT} Mara says so."
        await one.dream(Written(text=text, ids=["Yes", PORT], replaces=[PORT]))
        assert await one.notes() == {text: trust}
