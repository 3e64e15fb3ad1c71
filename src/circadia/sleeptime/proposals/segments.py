"""Groups new episodes by conversation and topic, so that a model reads each once, with what belongs to it (SLEEP-20).

No model is asked. Within a conversation a segment ends where the words change (Hearst, TextTiling, 1997: the terms of
the turns before a gap against those after it), where nobody spoke for long, or where it is full. Conversations that run
at the same time are kept apart, so the numbers of two segments may interleave.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise
from typing import Final

import numpy as np

from circadia.ids import EpisodeId
from circadia.memory.search.columns import Array
from circadia.memory.search.terms import STOP_WORDS, words
from circadia.records.episode import Episode
from circadia.sleeptime.grounding.relative_dates import local_time
from circadia.sleeptime.proposals.operation import PageContext
from circadia.sleeptime.proposals.similarity import SMALL_TALK, content_terms, cosines, normalize_statement, weigh_terms

RECENT_WINDOW: Final = 50
"""SLEEP-20: episodes of a segment at most."""
FEWEST: Final = 6
"""Episodes on either side of a change of topic: fewer show no topic."""
AROUND: Final = 6
"""Episodes before and after a gap that are compared."""
DEPTH: Final = 0.5
"""Standard deviations above the conversation's mean that a valley is deep at a change of topic."""
QUIET: Final = timedelta(hours=4)
"""A silence that ends a topic."""
NAMING_EPISODES: Final = 12
"""Episodes that a name is made from, and the first 200 characters of each."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Segment:
    """Episodes of one conversation that belong together."""

    episodes: Sequence[Episode]
    """What is to be read, in order."""
    duplicates: Mapping[EpisodeId, Sequence[Episode]]
    """What says the same as one of these, by its id: not to be read, but evidence as good as it."""

    @property
    def name(self) -> str:
        """Return the words that it is about, for people."""
        return _name_segment(self.episodes)

    @property
    def all_episodes(self) -> Sequence[Episode]:
        """Return all its episodes, duplicates too, in order."""
        more = [each for folded in self.duplicates.values() for each in folded]
        return sorted((*self.episodes, *more), key=lambda each: each.number) if more else self.episodes

    def with_duplicates(self, *read: Episode) -> Sequence[Episode]:
        """Return these with what says the same, in order."""
        more = [same for each in read for same in self.duplicates.get(each.id, ())]
        return sorted((*read, *more), key=lambda each: each.number)


def split_segments(view: PageContext) -> Sequence[Segment]:
    """Return the segments of a page, by their first episode; each new episode is in exactly one.

    The same page gives the same segments, whatever else is in the bank and whenever it is asked.
    """
    conversations: dict[str | None, list[Episode]] = {}
    for episode in view.page:
        conversations.setdefault(episode.session, []).append(episode)
    found = [
        _build_segment(conversation[first:last])
        for conversation in conversations.values()
        for first, last in pairwise(_find_boundaries(conversation))
    ]
    return sorted(found, key=lambda each: each.episodes[0].number)


def _find_boundaries(conversation: Sequence[Episode]) -> Sequence[int]:
    """Return where segments begin, with 0 and the end."""
    ends = [0, len(conversation)]
    if len(conversation) < 2 * FEWEST:
        return ends
    depths = _valley_depths(conversation)
    quiet = [after.at - before.at > QUIET for before, after in pairwise(conversation)]
    limit = depths.mean() + DEPTH * depths.std()
    # Silences first, then the deepest valleys; equals in order, so that nothing is left to chance.
    by_depth = sorted(range(1, len(conversation)), key=lambda at: (not quiet[at - 1], -depths[at - 1], at))
    for at in by_depth:
        if (quiet[at - 1] or depths[at - 1] > limit) and all(abs(at - each) >= FEWEST for each in ends):
            ends.append(at)
    ends.sort()
    return [0, *(end for first, last in pairwise(ends) for end in _split_long(first, last, depths))]


def _split_long(first: int, last: int, depths: Array) -> Sequence[int]:
    """Return the ends of parts that are not too long, cut where the valley is deepest."""
    if last - first <= RECENT_WINDOW:
        return [last]
    margin = (last - first) // 4
    middle = first + margin + int(np.argmax(depths[first + margin - 1 : last - margin]))
    return [*_split_long(first, middle, depths), *_split_long(middle, last, depths)]


def _valley_depths(conversation: Sequence[Episode]) -> Array:
    """Return how deep the valley of likeness is at each gap: how far it rises on both sides of it."""
    rows = weigh_terms([content_terms(each) for each in conversation])
    sums = np.concatenate((np.zeros((1, rows.shape[1]), np.float32), np.cumsum(rows, axis=0)))
    gaps = np.arange(1, len(conversation))
    before = sums[gaps] - sums[np.maximum(gaps - AROUND, 0)]
    after = sums[np.minimum(gaps + AROUND, len(conversation))] - sums[gaps]
    alike = cosines(before, after)
    return _left_peaks(alike) + _left_peaks(alike[::-1])[::-1] - 2 * alike


def _left_peaks(alike: Array) -> Array:
    """Return for each gap the peak that is reached by climbing to its left."""
    peaks = alike.copy()
    for at in range(1, len(peaks)):
        if alike[at - 1] >= alike[at]:
            peaks[at] = peaks[at - 1]
    return peaks


def _build_segment(episodes: Sequence[Episode]) -> Segment:
    read: list[Episode] = []
    duplicates: dict[EpisodeId, list[Episode]] = {}
    first: dict[tuple[str, str, str], Episode] = {}
    for episode in episodes:
        # On another day it may have happened again.
        key = (episode.speaker, local_time(episode).date().isoformat(), normalize_statement(episode.text))
        same = first.setdefault(key, episode)
        if same is episode or episode.incomplete != same.incomplete:
            read.append(episode)
        else:
            duplicates.setdefault(same.id, []).append(episode)
    return Segment(episodes=read, duplicates=duplicates)


def _name_segment(episodes: Sequence[Episode]) -> str:
    """Return the words that most of them have, else the beginning of the first."""
    speakers = {word for each in episodes for word in words(each.speaker)}
    spread: dict[str, int] = {}
    for episode in episodes[:NAMING_EPISODES]:
        for word in set(words(episode.text[:200])):
            if len(word) > 3 and word not in SMALL_TALK and word not in STOP_WORDS and word not in speakers:
                spread[word] = spread.get(word, 0) + 1
    best = sorted((word for word in spread if spread[word] > 1), key=lambda word: (-spread[word], -len(word), word))
    return ", ".join(best[:3]) or " ".join(episodes[0].text[:60].split())
