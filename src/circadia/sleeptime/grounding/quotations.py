"""Notes that are sentences as they were spoken, below their days and speakers: `On 2023-05-12, ann said: …`."""

import re
from collections.abc import Sequence
from typing import Final

from circadia.records.episode import Episode
from circadia.sleeptime.grounding.relative_dates import episode_text_with_dates, local_time
from circadia.sleeptime.grounding.wording import one_line

SENTENCE: Final = re.compile(r"[^.!?…\n]+(?:[.!?…]+(?!\s|$)[^.!?…\n]+)*[.!?…]*")


def speaker_of(row: Episode) -> str:
    """Return who said it, as a note names them."""
    return " ".join(row.speaker.replace(":", " ").split())


def is_extract(text: str, rows: Sequence[Episode]) -> bool:
    """Return whether a text is nothing but whole sentences of these, below their days and speakers as above."""
    said: dict[tuple[str, str], set[str]] = {}
    for row in rows:
        day, who = local_time(row).date().isoformat(), speaker_of(row)
        sentences = (one_line(match[0]) for match in SENTENCE.finditer(episode_text_with_dates(row)))
        said.setdefault((day, who), set()).update(each for each in sentences if each)
    at, day, there = 0, "", set[str]()
    while at < len(text):
        for (new, who), sentences in said.items():
            head = f"{who} said: " if new == day else f"On {new}, {who} said: "
            if text.startswith(head, at):
                at, day, there = at + len(head), new, sentences
                break
        sentence = max((each for each in there if text.startswith(each, at)), key=len, default="")
        at += len(sentence) + 1
        if not sentence or text[at - 1 : at] not in ("", " "):
            return False
    return bool(text)
