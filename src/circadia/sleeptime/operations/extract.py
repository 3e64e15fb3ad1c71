"""Extract: without a model, makes a note of the central sentences of a conversation (SLEEP-29).

It rephrases nothing: a note is a day, a speaker, and sentences as they were spoken, with dates resolved.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, cast

import numpy as np

from circadia.memory.capture.importance import importance, is_content
from circadia.memory.relative_dates import episode_text_with_dates, local_time
from circadia.memory.search.terms import question_terms
from circadia.records.bank import Trust
from circadia.records.change import Change
from circadia.records.episode import Episode, least_trust
from circadia.records.note import NoteKind
from circadia.sleeptime.grounding.quotations import SENTENCE, speaker_of
from circadia.sleeptime.grounding.wording import one_line, unfit_reason
from circadia.sleeptime.proposals import projected_notes
from circadia.sleeptime.proposals.changes import add_note
from circadia.sleeptime.proposals.operation import ModelQueryFunction, PageContext, Step
from circadia.sleeptime.proposals.segments import Segment, split_segments
from circadia.sleeptime.proposals.similarity import SMALL_TALK, content_terms, cosines, normalize_statement, weigh_terms

MAX_CHARACTERS: Final = 700
SHARE: Final = 0.5
"""Maximum length of a note as a share of its sources; a longer one saves nothing."""
MAX_SENTENCES: Final = 6
MIN_WORDS: Final = 4
"""Fewest words of a sentence that makes a statement."""
LONGEST: Final = 300
TELLS: Final = 0.35
"""Minimum importance of a sentence."""
MAX_SIMILARITY: Final = 0.6
"""Cosine above which two sentences say the same."""

_SMALL: Final = frozenset(question_terms(" ".join(sorted(SMALL_TALK))))


@dataclass(frozen=True, kw_only=True, slots=True)
class Sentence:
    episode: Episode
    text: str
    """The sentence with its dates resolved."""
    terms: Sequence[int]
    """Its content words."""
    importance: float
    """0 to 1."""


class Extract:
    name = "extract"
    asks = False

    def plan(self, view: PageContext) -> Sequence[Step]:
        """Return the segments in which at least two episodes make statements that no note has yet."""
        done = {
            episode_id
            for note in projected_notes.project_notes(view)
            if note.kind is not NoteKind.SUMMARY
            for episode_id in note.evidence
        }
        steps: list[Step] = []
        for segment in split_segments(view):
            new = [episode for episode in segment.episodes if episode.id not in done and _is_statement(episode)]
            if len(new) > 1:
                steps.append(
                    Step(name=segment.name, episodes=segment.all_episodes, data={"segment": segment, "new": new})
                )
        return steps

    async def propose(self, step: Step, view: PageContext, ask: ModelQueryFunction) -> Sequence[Change]:
        """Return the note of one segment; nothing if its episodes share no subject."""
        segment, new = cast("Segment", step.data["segment"]), cast("Sequence[Episode]", step.data["new"])
        subject = _shared_subject(new)
        about = [episode for episode in new if not subject.isdisjoint(content_terms(episode))]
        room = min(MAX_CHARACTERS, int(SHARE * sum(len(episode.text) for episode in about)))
        chosen = _choose_sentences([sentence for row in about for sentence in _find_sentences(row, subject)], room)
        if len({sentence.episode.id for sentence in chosen}) < 2:
            return ()
        why = f"the gist of {len(about)} things that were said about {step.name}"
        sources = segment.with_duplicates(*about)
        return [add_note(view, self.name, NoteKind.CONSOLIDATION, _build_note_text(chosen), sources, why=why)]


def _is_statement(episode: Episode) -> bool:
    """Return whether a participant makes a statement: texts of tools and pages are found as they are."""
    return least_trust(episode) in (Trust.PERSON, Trust.AGENT) and not episode.incomplete and is_content(episode.text)


def _shared_subject(episodes: Sequence[Episode]) -> frozenset[int]:
    """Return the words that at least two episodes share, without common words and speakers."""
    spread = Counter(term for episode in episodes for term in set(content_terms(episode)))
    speakers = {term for episode in episodes for term in question_terms(episode.speaker)}
    return frozenset(term for term, count in spread.items() if count > 1) - _SMALL - speakers


def _find_sentences(episode: Episode, subject: frozenset[int]) -> Iterator[Sentence]:
    """Yield an episode's sentences about a subject, without questions and long ones."""
    for match in SENTENCE.finditer(episode_text_with_dates(episode)):
        text = one_line(match[0])
        if text.endswith("?") or len(text) > LONGEST or text.count(" ") < MIN_WORDS - 1:
            continue
        terms = [term for term in question_terms(text) if term not in _SMALL]
        if not subject.isdisjoint(terms) and (score := importance(text)) >= TELLS:
            yield Sentence(episode=episode, text=text, terms=terms, importance=score)


def _choose_sentences(sentences: Sequence[Sentence], room: int) -> Sequence[Sentence]:
    """Return the most central sentences that fit, in order; none repeats another."""
    if not sentences:
        return ()
    rows = weigh_terms([sentence.terms for sentence in sentences])
    central = cosines(rows, np.broadcast_to(rows.sum(axis=0), rows.shape))
    scores = central + [sentence.importance / 2 for sentence in sentences]
    chosen: list[int] = []
    stated: set[str] = set()
    for at in sorted(range(len(sentences)), key=lambda at: (-scores[at], at)):
        text = sentences[at].text
        length = len(text) + len(sentences[at].episode.speaker) + len(" : ")
        alike = chosen and max(cosines(rows[chosen], np.broadcast_to(rows[at], rows[chosen].shape))) > MAX_SIMILARITY
        if length <= room and not alike and normalize_statement(text) not in stated and not unfit_reason(text):
            stated.add(normalize_statement(text))
            chosen.append(at)
            room -= length
        if len(chosen) == MAX_SENTENCES:
            break
    return [sentences[at] for at in sorted(chosen)]


def _build_note_text(sentences: Sequence[Sentence]) -> str:
    """Return sentences under their days and speakers, each of which is stated once for those that follow."""
    parts: list[str] = []
    day = speaker = ""
    for sentence in sentences:
        now = local_time(sentence.episode).date().isoformat()
        who = speaker_of(sentence.episode)
        if now != day:
            parts.append(f"{now} {who}: {sentence.text}")
        else:
            parts.append(sentence.text if who == speaker else f"{who}: {sentence.text}")
        day, speaker = now, who
    return " ".join(parts)
