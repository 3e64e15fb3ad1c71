"""The demo's conversation of six days, and the questions to the agent before and after its sleep."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

PERSON: Final = "mara"
AGENT: Final = "guide"
BANK: Final = "mara"
MONDAY: Final = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)


@dataclass(frozen=True, kw_only=True)
class StoryLine:
    day: int
    """From 1."""
    minute: int
    speaker: str
    text: str

    @property
    def at(self) -> datetime:
        return MONDAY + timedelta(days=self.day - 1, minutes=self.minute)


@dataclass(frozen=True, kw_only=True)
class DemoQuestion:
    question: str
    right: str
    """Word that a right answer contains."""


def _talk(day: int, *texts: str) -> list[StoryLine]:
    return [
        StoryLine(day=day, minute=2 * at, speaker=AGENT if at % 2 else PERSON, text=text)
        for at, text in enumerate(texts)
    ]


STORY: Final[Sequence[StoryLine]] = (
    *_talk(
        1,
        "Good morning. I live in Porto, close to the river, and I work at a bakery.",
        "Good morning, Mara. That sounds like early mornings.",
        "They are. My favourite dish is mushroom risotto.",
        "Noted. What shall we work on?",
        "The deadline is 3 May for the cookbook. My editor is Ilse.",
        "Then we have two months.",
    ),
    *_talk(
        2,
        "The chapter about bread is half done. The oven broke yesterday, so no pictures.",
        "A pity. Shall I look for somebody who mends ovens?",
        "Please do. My budget is 200 euros for that.",
        "I found two. One of them is free on Thursday.",
    ),
    *_talk(
        3,
        "News from Ilse: the deadline has moved to 10 May.",
        "One week more for the pictures.",
        "And the oven works again. The man was here this morning.",
        "Good. Then the pictures can be taken on Friday.",
    ),
    *_talk(
        4,
        "Big news, I have moved to Lisbon.",
        "How exciting! Does the bakery know?",
        "Yes, I can work from the flat until summer. My budget is 350 euros now.",
        "That gives us more room for the pictures.",
    ),
    *_talk(
        5,
        "My favourite dish is grilled sardines, no doubt.",
        "You told me something else on Monday.",
        "Did I? People change.",
        "They do.",
        "I drew a cover with a fish on it yesterday.",
        "Send it to me when you like it.",
    ),
    *_talk(6, "The cover is done, and Ilse likes the fish.", "Then only the last chapter is missing."),
)
NEXT_DAY: Final[Sequence[StoryLine]] = tuple(
    _talk(
        8,
        "The deadline has moved to 24 May.",
        "Even better.",
        "My editor is Tomas now, since Ilse is on leave.",
        "I shall write to Tomas then.",
    )
)
QUESTIONS: Final[Sequence[DemoQuestion]] = (
    DemoQuestion(question="Where do I live?", right="Lisbon"),
    DemoQuestion(question="When is the deadline?", right="10 May"),
    DemoQuestion(question="What is my favourite dish?", right="sardines"),
    DemoQuestion(question="What is my budget?", right="350"),
)
CHANGE: Final[Sequence[StoryLine]] = tuple(_talk(7, "My budget is 400 euros now.", "Noted, 400 euros."))
"""A change that makes a ready answer void."""
NEAR: Final[Sequence[DemoQuestion]] = (
    DemoQuestion(question="Where did I live?", right=""),
    DemoQuestion(question="Where do I not live?", right=""),
    DemoQuestion(question="What is Ilse's budget?", right=""),
)
"""Questions that sound like the expected ones but have another answer."""
BUDGET: Final = DemoQuestion(question="What is my budget?", right="400")
"""Asked again after the change."""
AWAKE: Final = DemoQuestion(question="Who is my editor?", right="")
"""Asked in the middle of the second night."""
