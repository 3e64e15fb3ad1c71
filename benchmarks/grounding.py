"""Which false claims get past the checks of a publication, and which true ones do not, in seven languages."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Final, TypeVar, cast

from pydantic import BaseModel

from benchmarks.report import Goal, Report
from circadia.ids import BankId, EpisodeId, PassId
from circadia.llm.chat_model import Prompt
from circadia.memory.search.terms import stored_terms
from circadia.records.bank import Bank, Trust
from circadia.records.change import Change, ChangeKind
from circadia.records.episode import Episode
from circadia.sleeptime.engine.operation_threads import CachedBankReader
from circadia.sleeptime.grounding.source_check import collect_sources, describe_ungrounded_claims
from circadia.sleeptime.proposals.operation import PageContext, Step
from circadia.sleeptime.publish.claim_verifier import ClaimVerdict, ClaimVerdicts, ClaimVerifier, refusal_reason
from circadia.stores.base import Store

T = TypeVar("T", bound=BaseModel)

FOLDER: Final = Path(__file__).with_name("claims")
LANGUAGES: Final = ("en", "de", "fr", "es", "zh", "ja", "ar")
ERRORS: Final = (0.0, 0.05, 0.1)
"""Shares of claims that a judge gets wrong, by the claim's hash."""
TRUE: Final = "true"
_NOW: Final = datetime(2024, 4, 1, tzinfo=UTC)
_BANK: Final = Bank(id=BankId("bnk_1"), name="claims", created_at=_NOW)


@dataclass(frozen=True, kw_only=True, slots=True)
class Claim:
    """A text that is to be published."""

    kind: str
    """`true`, or in which way it is false."""
    text: str
    sources: Sequence[Episode]


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """What became of the claims of a language."""

    caught: Sequence[str]
    """Kinds of false claims that are refused without a judge."""
    denied: Sequence[str]
    """True claims that are refused without a judge."""
    passed: Mapping[float, Sequence[str]]
    """Kinds of false claims that get past both, by the judge's share of errors."""
    refused: Mapping[float, Sequence[str]]
    """True claims that do not."""


def claims(language: str) -> Sequence[Claim]:
    """Return the claims of a language with their sources."""
    rows: dict[str, Episode] = {}
    found: list[Claim] = []
    for line in (FOLDER / f"{language}.tsv").read_text("utf-8").splitlines():
        what, key, who, day, text = line.split("\t")
        if what == "source":
            number, at = len(rows) + 1, datetime.fromisoformat(f"{day}T12:00:00+00:00")
            rows[key] = Episode(
                id=EpisodeId(f"epi_{number}"), number=number, bank_id=_BANK.id, at=at, text=text, speaker=who,
                conversation="s", stored_at=at, terms=stored_terms(text), trust=Trust.PERSON, importance=0.5,
            )  # fmt: skip
        else:
            found.append(Claim(kind=key, text=text, sources=[rows[each] for each in who.split()]))
    return found


class Judge:
    """A model that knows which claims are true, and errs as often as it is told, always about the same ones."""

    def __init__(self, every: Sequence[Claim], errors: float) -> None:
        self._true = {each.text: (each.kind == TRUE) != (_drawn(each.text) < errors) for each in every}

    async def __call__(self, prompt: Prompt, output: type[T], *, most_tokens: int) -> T:
        shown = re.findall(r"(?m)^(c\d+) \[[^\]]*\] (.*)$", prompt.data)
        verdicts = [ClaimVerdict(id=key, verdict="said" if self._true[text] else "not_said") for key, text in shown]
        return cast("T", ClaimVerdicts(verdicts=verdicts))


async def outcome(language: str) -> Outcome:
    """Hold the claims of a language to the rules, and have them judged."""
    every = claims(language)
    sound = [not describe_ungrounded_claims(each.text, collect_sources(each.sources)) for each in every]
    passed: dict[float, Sequence[str]] = {}
    refused: dict[float, Sequence[str]] = {}
    for errors in ERRORS:
        judged = await _judged(every, Judge(every, errors))
        done = [(each, fits and not no) for each, fits, no in zip(every, sound, judged, strict=True)]
        passed[errors] = [each.kind for each, published in done if published and each.kind != TRUE]
        refused[errors] = [each.text for each, published in done if not published and each.kind == TRUE]
    return Outcome(
        caught=[each.kind for each, fits in zip(every, sound, strict=True) if each.kind != TRUE and not fits],
        denied=[each.text for each, fits in zip(every, sound, strict=True) if each.kind == TRUE and not fits],
        passed=passed, refused=refused,
    )  # fmt: skip


async def _judged(every: Sequence[Claim], ask: Judge) -> Sequence[str]:
    """Return why each claim is refused, as a note that a pass would publish."""
    rows = {row.id: row for each in every for row in each.sources}
    changes = [
        Change(
            pass_id=PassId("pas_1"), number=0, operation="consolidate", kind=ChangeKind.ADD_NOTE, target=f"not_{at}",
            after={"text": each.text, "kind": "consolidation", "evidence": [row.id for row in each.sources]}, at=_NOW,
        )
        for at, each in enumerate(every)
    ]  # fmt: skip
    look = CachedBankReader(cast("Store", None), _BANK, None, list(rows.values()))  # all is known, so nothing is read
    view = PageContext(bank=_BANK, now=_NOW, page=list(rows.values()), notes=(), blocks=(), look=look, proposed=changes)
    return [refusal_reason(each) for each in await ClaimVerifier().propose(Step(name="verdicts"), view, ask)]


async def run(_: Path) -> Report:
    """Measure."""
    found = {language: await outcome(language) for language in LANGUAGES}
    false = sum(each.kind != TRUE for each in claims(LANGUAGES[0]))
    true = len(claims(LANGUAGES[0])) - false
    return Report(
        name="grounding",
        title=f"Of {false} kinds of false claims those that are published, and of {true} true ones those that are not",
        columns=[
            "language", "false refused without a judge", "true refused", *(
                head for errors in ERRORS for head in (f"false published, judge errs {errors:.0%}", "true refused")
            ),
        ],
        rows=[
            [language, *map(str, (len(each.caught), len(each.denied), *_counts(each)))]
            for language, each in found.items()
        ],
        goals=[
            Goal(
                what="false claims published in any language, with a right judge", limit=2, unit="of 24",
                found=max(len(each.passed[0.0]) for each in found.values()),
            ),
            Goal(
                what="true claims refused in any language, with a right judge", limit=0, unit="of 20",
                found=max(len(each.refused[0.0]) for each in found.values()),
            ),
        ],
        notes=[
            "The claims are those of `benchmarks/claims`, the same in each language. False ones deny, swap roles, drop "
            "hedges and conditions, invent, or state another number, unit, date, name, place, address, code, "
            "quantifier, comparison or order.",
            "Without a judge only what can be compared in any language is compared. The judge is a script that knows "
            "the truth, and errs about a share of the claims, by their hash: it shows what rests on the model, not how "
            "good one is.",
        ],
        figures={
            language: {"caught": [*each.caught], **{f"{errors:g}": [*each.passed[errors]] for errors in ERRORS}}
            for language, each in found.items()
        },
    )  # fmt: skip


def _counts(each: Outcome) -> Iterator[int]:
    for errors in ERRORS:
        yield from (len(each.passed[errors]), len(each.refused[errors]))


def _drawn(text: str) -> float:
    """Return a number from 0 to 1 that is the same for a text whenever it is drawn."""
    return int.from_bytes(sha256(text.encode()).digest()[:4]) / 2**32
