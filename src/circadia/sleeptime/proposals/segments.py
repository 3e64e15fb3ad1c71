"""Groups new episodes by conversation and topic, so that a model reads each once, with its context (SLEEP-20).

It uses no model. Within a conversation a segment ends where the words change (Hearst, TextTiling, 1997: the terms of
the turns before a gap against those after it), after a long silence, or where it is full. Parallel conversations are
kept apart, so the numbers of two segments may interleave.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import pairwise
from typing import Final

import numpy as np

from circadia.ids import EpisodeId
from circadia.memory.relative_dates import local_time
from circadia.memory.search.columns import Array
from circadia.memory.search.passages import find_passages
from circadia.memory.search.terms import STOP_WORDS, words
from circadia.records.episode import Episode, Passage, cut_episode
from circadia.sleeptime.proposals.operation import PageContext
from circadia.sleeptime.proposals.prompts import WHOLE
from circadia.sleeptime.proposals.similarity import SMALL_TALK, content_terms, cosines, normalize_statement, weigh_terms

RECENT_WINDOW: Final = 50
"""SLEEP-20: maximum episodes of a segment."""
MIN_SEGMENT: Final = 6
"""Minimum episodes on either side of a change of topic."""
AROUND: Final = 6
"""Episodes before and after a gap that are compared."""
DEPTH: Final = 0.5
"""Standard deviations above the conversation's mean from which a valley marks a change of topic."""
QUIET: Final = timedelta(hours=4)
"""A silence that ends a topic."""
NAMING_EPISODES: Final = 12
"""Episodes that a name is made from, by the first 200 characters of each."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Segment:
    episodes: Sequence[Episode]
    """The episodes to read, in order."""
    duplicates: Mapping[EpisodeId, Sequence[Episode]]
    """Repetitions of these by id: not to be read, but equally good evidence."""
    is_continued: bool = False
    """Whether it is a later part of a very long episode."""

    @property
    def name(self) -> str:
        return _name_segment(self.episodes)

    @property
    def all_episodes(self) -> Sequence[Episode]:
        more = [episode for folded in self.duplicates.values() for episode in folded]
        return sorted((*self.episodes, *more), key=lambda episode: episode.number) if more else self.episodes

    def with_duplicates(self, *read: Episode) -> Sequence[Episode]:
        """Return these and their duplicates in order."""
        more = [same for episode in read for same in self.duplicates.get(episode.id, ())]
        return sorted((*read, *more), key=lambda episode: episode.number)


def split_segments(view: PageContext) -> Sequence[Segment]:
    """Return a page's segments by first episode, each text in exactly one; they depend on the page alone."""
    conversations: dict[str | None, list[Episode]] = {}
    for episode in view.page:
        conversations.setdefault(episode.conversation, []).append(episode)
    segments = [
        part
        for conversation in conversations.values()
        for first, last in pairwise(_find_boundaries(conversation))
        for part in _split_texts(_build_segment(conversation[first:last]))
    ]
    return sorted(segments, key=lambda segment: segment.episodes[0].number)


def _find_boundaries(conversation: Sequence[Episode]) -> Sequence[int]:
    """Return the starts of the segments, and the end."""
    ends = [0, len(conversation)]
    if len(conversation) < 2 * MIN_SEGMENT:
        return ends
    depths = _valley_depths(conversation)
    quiet = [after.at - before.at > QUIET for before, after in pairwise(conversation)]
    limit = depths.mean() + DEPTH * depths.std()
    # Silences first, then the deepest valleys; ties in order, so that the result is deterministic.
    by_depth = sorted(range(1, len(conversation)), key=lambda at: (not quiet[at - 1], -depths[at - 1], at))
    for at in by_depth:
        if (quiet[at - 1] or depths[at - 1] > limit) and all(abs(at - end) >= MIN_SEGMENT for end in ends):
            ends.append(at)
    ends.sort()
    return [0, *(end for first, last in pairwise(ends) for end in _split_long(first, last, depths))]


def _split_long(first: int, last: int, depths: Array) -> Sequence[int]:
    """Return the ends of parts of at most `RECENT_WINDOW` episodes, cut at the deepest valleys."""
    if last - first <= RECENT_WINDOW:
        return [last]
    margin = (last - first) // 4
    middle = first + margin + int(np.argmax(depths[first + margin - 1 : last - margin]))
    return [*_split_long(first, middle, depths), *_split_long(middle, last, depths)]


def _valley_depths(conversation: Sequence[Episode]) -> Array:
    """Return the depth of the valley of similarity at each gap: its rise on both sides."""
    rows = weigh_terms([content_terms(episode) for episode in conversation])
    sums = np.concatenate((np.zeros((1, rows.shape[1]), np.float32), np.cumsum(rows, axis=0)))
    gaps = np.arange(1, len(conversation))
    before = sums[gaps] - sums[np.maximum(gaps - AROUND, 0)]
    after = sums[np.minimum(gaps + AROUND, len(conversation))] - sums[gaps]
    alike = cosines(before, after)
    return _left_peaks(alike) + _left_peaks(alike[::-1])[::-1] - 2 * alike


def _left_peaks(alike: Array) -> Array:
    """Return for each gap the peak reached by climbing to its left."""
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
        # A repetition on another day may be another event.
        key = (episode.speaker, local_time(episode).date().isoformat(), normalize_statement(episode.text))
        same = first.setdefault(key, episode)
        if same is episode or episode.incomplete != same.incomplete:
            read.append(episode)
        else:
            duplicates.setdefault(same.id, []).append(episode)
    return Segment(episodes=read, duplicates=duplicates)


def _split_texts(segment: Segment) -> Iterator[Segment]:
    """Yield a segment with the first parts of its texts, then each later part of a text beyond `WHOLE` alone."""
    parts = [_split_text(episode) for episode in segment.episodes]
    yield replace(segment, episodes=[first for first, *_ in parts])
    for _, *more in parts:
        for part in more:
            yield replace(segment, episodes=[part], is_continued=True)


def _split_text(episode: Episode) -> Sequence[Episode]:
    """Return an episode in parts of at most `WHOLE` characters, cut between passages."""
    if len(episode.text) <= WHOLE:
        return [episode]
    parts: list[list[Passage]] = [[]]
    for passage in find_passages(episode):
        if parts[-1] and passage.end - parts[-1][0].start > WHOLE:
            parts.append([])
        parts[-1].append(passage)
    return [cut_episode(episode, part[0].start, part[-1].end, part) for part in parts]


def _name_segment(episodes: Sequence[Episode]) -> str:
    """Return the words that most episodes share, else the beginning of the first."""
    speakers = {word for episode in episodes for word in words(episode.speaker)}
    spread: dict[str, int] = {}
    for episode in episodes[:NAMING_EPISODES]:
        for word in set(words(episode.text[:200])):
            if len(word) > 3 and word not in SMALL_TALK and word not in STOP_WORDS and word not in speakers:
                spread[word] = spread.get(word, 0) + 1
    best = sorted((word for word in spread if spread[word] > 1), key=lambda word: (-spread[word], -len(word), word))
    return ", ".join(best[:3]) or " ".join(episodes[0].text[:60].split())
