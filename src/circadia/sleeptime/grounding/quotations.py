"""Notes that quote sentences under their days and speakers: `2023-05-12 ann: …`, in no language of their own."""

import re
from collections.abc import Sequence
from typing import Final

from circadia.memory.relative_dates import episode_text_with_dates, local_time
from circadia.records.episode import Episode
from circadia.sleeptime.grounding.wording import one_line

SENTENCE: Final = re.compile(r"[^.!?…\n]+(?:[.!?…]+(?!\s|$)[^.!?…\n]+)*[.!?…]*")


def speaker_of(row: Episode) -> str:
    """Return the speaker as notes write the name."""
    return " ".join(row.speaker.replace(":", " ").split())


def is_extract(text: str, rows: Sequence[Episode]) -> bool:
    """Return whether a text only quotes whole sentences of these episodes, with their days and speakers."""
    spoken: dict[tuple[str, str], set[str]] = {}
    for row in rows:
        day, who = local_time(row).date().isoformat(), speaker_of(row)
        sentences = (one_line(match[0]) for match in SENTENCE.finditer(episode_text_with_dates(row)))
        spoken.setdefault((day, who), set()).update(sentence for sentence in sentences if sentence)
    at, day, current = 0, "", set[str]()
    while at < len(text):
        for (new, who), sentences in spoken.items():
            head = f"{who}: " if new == day else f"{new} {who}: "
            if text.startswith(head, at):
                at, day, current = at + len(head), new, sentences
                break
        sentence = max((sentence for sentence in current if text.startswith(sentence, at)), key=len, default="")
        at += len(sentence) + 1
        if not sentence or text[at - 1 : at] not in ("", " "):
            return False
    return bool(text)
