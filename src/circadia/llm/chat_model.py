"""What the sleep tier asks of a model: one question with a schema, one answer with what it used (SLEEP-41)."""

from dataclasses import dataclass
from typing import Protocol, TypeVar

from pydantic import BaseModel

from circadia.llm.usage import Usage

T = TypeVar("T", bound=BaseModel)


@dataclass(frozen=True, kw_only=True, slots=True)
class Prompt:
    """A question."""

    rules: str
    """The system side: what is to be done, and how; never anything that was said in a conversation."""
    data: str
    """What it is to be done with: fenced, since it may hold instructions of anybody's."""

    @property
    def bytes(self) -> int:
        """Bytes of both."""
        return len(self.rules.encode()) + len(self.data.encode())


class ModelAnswerError(Exception):
    """The model gave nothing of use: an error, prose, bad or truncated JSON, an empty body, no answer in time.

    What was asked stays to be asked again (SLEEP-13).
    """

    def __init__(
        self, cause: str, *, used: Usage | None = None, passing: bool = False, retry_after_seconds: float | None = None
    ) -> None:
        """`cause` is for people and holds nothing that was said; `used` is none where it is not known.

        `passing` says that the provider is at fault (429, 5xx, no connection) and not what it was asked about.
        """
        super().__init__(cause)
        self.cause = cause
        self.used = used
        self.passing = passing
        self.retry_after_seconds = retry_after_seconds


class ChatModel(Protocol):
    """A model."""

    name: str
    """As the provider calls it."""
    upstream: str
    """Name of the provider in the configuration."""

    async def ask(self, prompt: Prompt, output: type[T], *, most_tokens: int) -> tuple[T, Usage]:
        """Return the answer and what it used. `most_tokens` limits the output, reasoning included.

        Raises:
            ModelAnswerError: there is none. A cancellation ends the question at the provider, too.
        """
        ...

    def price(self, used: Usage) -> int | None:
        """Return the price in billionths of a US dollar; none if it is not known."""
        ...

    def worst_price(self, input_tokens: int, output_tokens: int) -> int | None:
        """Return the most that a question of this size can cost; none if no price is known."""
        ...
