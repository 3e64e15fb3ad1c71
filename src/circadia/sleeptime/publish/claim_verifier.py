"""Asks the tier's model whether generated text is supported by its cited sources (SLEEP-33).

One question holds all claims of a page below the lines that they cite. Changes of operations without a model and exact
extracts are not judged. A missing verdict is a no.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, Final, Literal, cast

from pydantic import BaseModel, Field

from circadia.ids import EpisodeId, NoteId
from circadia.memory.search.terms import question_terms
from circadia.records.change import Change, ChangeKind
from circadia.records.episode import Episode, merge_parts
from circadia.records.note import Note, NoteKind
from circadia.sleeptime.budget.savings import VERIFY
from circadia.sleeptime.grounding.change_rules import NOTE, FinalRefusal, source_ids_of
from circadia.sleeptime.grounding.quotations import is_extract
from circadia.sleeptime.grounding.wording import one_line
from circadia.sleeptime.proposals import projected_notes
from circadia.sleeptime.proposals.block_edits import EDIT
from circadia.sleeptime.proposals.changes import add_note
from circadia.sleeptime.proposals.operation import ModelQueryFunction, PageContext, Step
from circadia.sleeptime.proposals.prompts import WHOLE, NumberedLines, add_row, build_file_prompt, list_parts

MAX_CLAIMS: Final = 40
"""Claims of a question; a page seldom has more."""
MAX_CHARACTERS: Final = 60_000
"""Characters of a question, unless a single claim has more."""
MIN_CITED_LINES: Final = 24
"""Sources of a claim up to which all are shown: which of them matter, shared words do not tell in two languages."""
MAX_LINES: Final = 40
"""Sources of a claim that are shown at most."""
MAX_PARTS: Final = 10
"""Passages of a very long source that are shown at most."""
LINES_A_WORD: Final = 2
"""Of more sources, those that are shown of each word of the claim: enough to see that one says otherwise."""
VERDICT_TOKENS: Final = 60
REST_TOKENS: Final = 400
"""Room for what is left of claims, and for what they would lose."""
VERDICT: Final = "verdict"
"""Key of the verdict in `Change.after`."""
WHY_NOT: Final = "why_not"
"""Key of what the model says of a refusal, in `Change.after`."""
MAX_WHY: Final = 200
"""Characters of that."""
SAID: Final = "said"
MARKDOWN: Final = "markdown"
"""Key in `Change.after` of an entry of a file, which may have several lines."""
MISSING: Final = "missing"
NOT_OVER: Final = "not_over"
_GONE: Final = " (gone)"
REASONS: Final[Mapping[str, str]] = {
    "not_said": "its sources do not say it, as the model judges",
    NOT_OVER: "its sources do not show that it is over, as the model judges",
    "contradicted": "its sources say otherwise, as the model judges",
    "instructs": "it instructs its reader, as the model judges",
    "unwanted": "the mission of the bank does not want it remembered, as the model judges",
    "undated": "its date is unclear without the day it was written, as the model judges",
    MISSING: "the model gave no verdict on it",
}
"""Why a change is refused, by verdict."""
_FINAL: Final = frozenset({"unwanted", MISSING})
"""Verdicts that no other text would change."""


class ClaimVerdict(BaseModel):
    id: str
    why: str = ""
    """Asked for before the verdict, which gets better by it; a refusal shows it."""
    verdict: Literal["said", "not_said", "contradicted", "instructs", "unwanted", "undated", "missing"]
    text: str = Field(default="", max_length=1_000)
    """Of a note that is not said as a whole, the part that is."""
    lost: str = Field(default="", max_length=1_000)
    """What it replaces and no claim says, though it is still true."""
    not_over: list[str] = Field(default_factory=list[str], max_length=40)
    """Of the ids that it ends, those of which it does not show that they are over."""


class ClaimVerdicts(BaseModel):
    verdicts: list[ClaimVerdict] = Field(max_length=2 * MAX_CLAIMS)


@dataclass(frozen=True, kw_only=True, slots=True)
class Claim:
    """A text of a change, with the sources that it cites."""

    number: int
    """Index of its change."""
    text: str
    mark: str = ""
    sources: Sequence[Episode]
    beside: Sequence[Episode | Note] = ()
    """Rows that show whom or what it names, and are no evidence."""
    ends: Sequence[Episode | Note] = ()
    """Rows that no longer hold according to it."""
    before: str = ""
    """What it replaces: notes, or lines of the block."""
    alone: bool = False
    """Whether its question holds no other claim: each pass proposes a refused summary again, and pays for it once."""


class ClaimVerifier:
    """Judges a page's changes, as a separate step that may fail and be retried."""

    name = VERIFY
    asks = True

    def plan(self, view: PageContext) -> Sequence[Step]:
        return [Step(name="verdicts", episodes=view.page)] if view.proposed else []

    async def propose(self, step: Step, view: PageContext, ask: ModelQueryFunction) -> Sequence[Change]:
        """Return the changes in order, each with its verdict; then notes of what they would lose.

        A note of which only a part is said has the text of that part.
        """
        ids = {
            key
            for change in view.proposed
            for key in (*source_ids_of(change), *_context_ids(change), *_ended_ids(change))
        }
        rows = await view.look.fetch_episodes(sorted(EpisodeId(key) for key in ids if not key.startswith(NOTE)))
        verdicts: dict[int, list[ClaimVerdict]] = {}
        not_over: set[tuple[str, str]] = set()
        claims = [claim for at, change in enumerate(view.proposed) for claim in _find_claims(at, change, view, rows)]
        together = [claim for claim in claims if not claim.alone]
        for part in (*_split_questions(together), *({"c1": claim} for claim in claims if claim.alone)):
            lines = _build_question(part)
            prompt = build_file_prompt(self.name, lines.text, mission=view.bank.policy.mission, today=view.now)
            answer = await ask(prompt, ClaimVerdicts, most_tokens=VERDICT_TOKENS * (len(part) + 2) + REST_TOKENS)
            for key, claim in part.items():
                of_it = [each for each in answer.verdicts if each.id.strip("[]() .,;:").lower() == key]
                worst = next((each for each in of_it if each.verdict != SAID), of_it[0] if of_it else None)
                if worst is not None and worst.verdict == "not_said" and claim.mark == _GONE:
                    worst = worst.model_copy(update={"verdict": NOT_OVER})
                verdicts.setdefault(claim.number, []).append(worst or ClaimVerdict(id=key, verdict=MISSING))
                still = lines.resolve_ids(key for each in of_it for key in each.not_over)
                not_over |= {(view.proposed[claim.number].target, row.id) for row in (*still.episodes, *still.notes)}
        judged: list[Change] = []
        lost: list[Change] = []
        for at, change in enumerate(view.proposed):
            of_change = verdicts.get(at)
            if of_change is None:
                after = change.after or {}
                over_by = str(
                    after.get("evidence") if change.kind is ChangeKind.DEMOTE_EPISODE else after.get("instead")
                )
                judged.append(_mark_still_true(change) if (over_by, change.target) in not_over else change)
                continue
            verdict = next((each for each in of_change if each.verdict != SAID), of_change[0])
            judged.append(_judge(change, verdict))
            if refusal_reason(judged[-1]) == "" and (text := one_line(verdict.lost)):
                if MARKDOWN in (change.after or {}):
                    judged[-1] = _add_lost(judged[-1], text)
                else:
                    lost += await _keep_lost(view, change, text)
        return [*judged, *lost]


def _judge(change: Change, verdict: ClaimVerdict) -> Change:
    """Return a change with its verdict: of a note that is said in part, what is said."""
    is_partial = verdict.verdict == "not_said" and change.kind is ChangeKind.ADD_NOTE
    said_part = _clean_text(verdict.text, change) if is_partial else ""
    more = {"text": said_part, VERDICT: SAID} if said_part else {VERDICT: verdict.verdict}
    if more[VERDICT] != SAID and (why := one_line(verdict.why)[:MAX_WHY]):
        more[WHY_NOT] = why
    return replace(change, after={**(change.after or {}), **more})


def _clean_text(text: str, change: Change) -> str:
    """Return a text in one line, or an entry of a file in its lines, such as steps."""
    lines = text.splitlines() if MARKDOWN in (change.after or {}) else [text]
    return "\n".join(filter(None, map(one_line, lines)))


def _mark_still_true(change: Change) -> Change:
    return replace(change, after={**(change.after or {}), VERDICT: NOT_OVER})


def _add_lost(change: Change, text: str) -> Change:
    """Return an entry of a file with what the entries say that it replaces, and it does not: "it" is clear there."""
    after = change.after or {}
    written = {key: f"{after[key]} {text}" for key in ("text", MARKDOWN)}
    return replace(change, after={**after, **written})


async def _keep_lost(view: PageContext, change: Change, text: str) -> Sequence[Change]:
    """Return a note of what the notes say that a change replaces, and it does not (SLEEP-89)."""
    retired = [each.before or {} for each in view.proposed if (each.after or {}).get("instead") == change.target]
    ids = [EpisodeId(key) for before in retired for key in cast("Sequence[str]", before.get("evidence", ()))]
    rows = await view.look.fetch_episodes(dict.fromkeys(ids))
    if not rows or text in {note.text for note in view.notes}:
        return ()
    why = "what a note says that was replaced for something else in it"
    note = add_note(view, change.operation, NoteKind.CONSOLIDATION, text, list(rows.values()), why=why)
    return [replace(note, after={**(note.after or {}), VERDICT: SAID})]


def refusal_reason(change: Change) -> str:
    """Return why its verdict refuses a change; empty if it does not."""
    after = change.after or {}
    verdict = str(after.get(VERDICT, SAID))
    reason = REASONS.get(verdict, "")
    reason = f"{reason}: {after[WHY_NOT]}" if reason and WHY_NOT in after else reason
    return FinalRefusal(reason) if verdict in _FINAL else reason


def mark_missing_verdict(change: Change) -> Change:
    return replace(change, after={**(change.after or {}), VERDICT: MISSING}) if source_ids_of(change) else change


def _context_ids(change: Change) -> Sequence[str]:
    return list(dict.fromkeys(cast("Mapping[str, str]", (change.after or {}).get("context") or {}).values()))


def _ended_ids(change: Change) -> Sequence[str]:
    return cast("Sequence[str]", (change.after or {}).get("ended", ()))


def _find_rows(
    text: str, ids: Sequence[str], view: PageContext, rows: Mapping[EpisodeId, Episode]
) -> Iterator[Episode | Note]:
    notes = {note.id: note for note in projected_notes.project_notes(view)} if ids else {}
    for key in ids:
        row = rows.get(EpisodeId(key)) or notes.get(NoteId(key))
        if row is not None:
            yield row if isinstance(row, Note) else _nearest_parts(text, row)


def _find_claims(number: int, change: Change, view: PageContext, rows: Mapping[EpisodeId, Episode]) -> Iterator[Claim]:
    """Yield a change's claims: one of a note or a flag; of a block one for each line that it writes or takes out."""
    after = change.after or {}
    text = _clean_text(str(after.get(MARKDOWN) or after.get("text", "")), change)
    beside = list(_find_rows(text, _context_ids(change), view, rows))
    if change.kind is ChangeKind.WRITE_BLOCK:
        yield from _find_line_claims(number, change, rows, beside)
    elif change.kind in (ChangeKind.ADD_NOTE, ChangeKind.FLAG):
        cited = [rows[episode_id] for episode_id in source_ids_of(change) if episode_id in rows]
        if not is_extract(one_line(text), cited):
            belief = " (belief)" if after.get("kind") == NoteKind.BELIEF.value else ""
            places = cast("Sequence[Mapping[str, Any]]", after.get("places", ()))
            described = " (description)" if any(place.get("description") for place in places) else belief
            mark = " (open)" if change.kind is ChangeKind.FLAG else described
            retired = [
                each.before or {} for each in view.proposed if (each.after or {}).get("instead") == change.target
            ]
            yield Claim(
                number=number, text=text, mark=mark, sources=_select_sources(text, cited), beside=beside,
                before="\n".join(str(before.get("text", "")) for before in retired),
                ends=list(_find_rows(text, _ended_ids(change), view, rows)),
                alone=after.get("kind") == NoteKind.SUMMARY.value,
            )  # fmt: skip


def _find_line_claims(
    number: int, change: Change, rows: Mapping[EpisodeId, Episode], beside: Sequence[Episode | Note]
) -> Iterator[Claim]:
    """Yield each new line as it will be: an edit of a part of a line rests on the edit's sources, and on that line."""
    after, old = change.after or {}, str((change.before or {}).get("value", "")).split("\n")
    edit = cast("Mapping[str, Any]", after.get(EDIT) or {})
    if edit.get("moved"):  # its notes say it on
        return
    new = str(after.get("value", "")).split("\n")
    spans = cast("Sequence[tuple[int, int, Sequence[str]]]", after.get("spans") or ())
    removed_text = "\n".join(line for line in old if line not in new)
    claims: list[tuple[str, Iterable[str], str]] = []
    start = 0
    for line in new:
        end = start + len(line)
        if line.strip() and line not in old:
            ids = dict.fromkeys(key for first, last, keys in spans if first < end and start < last for key in keys)
            claims.append((line, edit.get("ids", ids), ""))
        start = end + 1
    if edit and not (edit["new"] and claims):  # it takes something out
        claims = [(edit["old"], edit["ids"], _GONE)]
        removed_text = "" if removed_text == edit["old"] else removed_text
    for line, ids, mark in claims:
        cited = [rows[EpisodeId(row_id)] for row_id in ids if row_id in rows]
        yield Claim(
            number=number, text=one_line(line), mark=mark, sources=_select_sources(line, cited), beside=beside,
            before=removed_text,
        )  # fmt: skip


def _select_sources(text: str, cited: Sequence[Episode]) -> Sequence[Episode]:
    """Return the sources to show with a claim: of many, and of very long ones, what has its words."""
    cited = [_nearest_parts(text, episode) for episode in sorted(cited, key=lambda episode: episode.number)]
    if len(cited) <= MIN_CITED_LINES:
        return cited
    missing = Counter(dict.fromkeys(question_terms(text), LINES_A_WORD))
    terms = {source.number: missing.keys() & question_terms(source.text) for source in cited}
    chosen: set[int] = set()
    while terms and len(chosen) < MAX_LINES:
        terms_left = (+missing).keys()
        gains = {number: len(terms_left & has) for number, has in terms.items()}
        best = max(gains, key=gains.__getitem__)
        if not gains[best] and len(chosen) >= MIN_CITED_LINES:
            break
        missing.subtract(terms.pop(best))
        chosen.add(best)
    return [source for source in cited if source.number in chosen]


def _nearest_parts(text: str, episode: Episode) -> Episode:
    """Return of a very long episode the passages that share most words with a claim, in order."""
    if len(episode.text) <= WHOLE:
        return episode
    terms = set(question_terms(text))
    parts = list_parts(episode)
    shared = [len(terms.intersection(question_terms(part.text))) for part in parts]
    best = sorted(range(len(parts)), key=lambda at: -shared[at])[:MAX_PARTS]
    return reduce(merge_parts, [parts[at] for at in sorted(best)])


def _split_questions(claims: Sequence[Claim]) -> Iterator[Mapping[str, Claim]]:
    """Yield the claims of each question by id, in halves where there are too many for one."""
    part = {f"c{number}": claim for number, claim in enumerate(claims, 1)}
    if len(part) > 1 and (len(part) > MAX_CLAIMS or len(_build_question(part).text) > MAX_CHARACTERS):
        yield from _split_questions(claims[: len(claims) // 2])
        yield from _split_questions(claims[len(claims) // 2 :])
    elif part:
        yield part


def _build_question(part: Mapping[str, Claim]) -> NumberedLines:
    """Return a question: all lines, each once, then the claims with the ids of those that they cite."""
    lines = NumberedLines()
    lines.add_heading("Lines")
    rows: dict[str, Episode | Note] = {}
    for row in (row for claim in part.values() for row in (*claim.sources, *claim.beside, *claim.ends)):
        add_row(rows, row)
    lines.add_episodes(
        sorted((row for row in rows.values() if isinstance(row, Episode)), key=lambda row: row.number), longest=WHOLE
    )
    lines.add_notes([row for row in rows.values() if isinstance(row, Note)])
    replaced: dict[str, list[str]] = {}
    for key, claim in part.items():
        if claim.before:
            replaced.setdefault(claim.before, []).append(key)
    for before, keys in replaced.items():
        lines.add_block(f"Replaced by {' '.join(keys)}", before)
    lines.add_heading("Claims")
    for key, claim in part.items():
        ids = " ".join(lines.id_of(source) for source in claim.sources)
        beside = " ".join(lines.id_of(row) for row in claim.beside if row not in claim.sources)
        ends = " ".join(lines.id_of(row) for row in claim.ends)
        named = f"{ids}{f' beside {beside}' if beside else ''}{f' ends {ends}' if ends else ''}"
        first, *others = claim.text.split("\n")
        lines.add_line(f"{key}{claim.mark} [{named}] {first}")
        for line in others:
            lines.add_line(f"| {line}")
    return lines
