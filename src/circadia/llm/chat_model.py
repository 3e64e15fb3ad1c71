"""The interface to the sleep tier's models: a prompt with a schema in, an answer and its usage out (SLEEP-41)."""

from dataclasses import dataclass
from typing import Literal, Protocol, TypeVar

from pydantic import BaseModel

from circadia.llm.usage import Usage

T = TypeVar("T", bound=BaseModel)

Cut = Literal["answer", "thinking"]
"""What a model was at when it reached the limit of its output."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Prompt:
    rules: str
    """The system side: the task, and never anything from a conversation."""
    data: str
    """The fenced material: it may hold anybody's instructions."""

    @property
    def bytes(self) -> int:
        return len(self.rules.encode()) + len(self.data.encode())


class ModelAnswerError(Exception):
    """The model gave no usable answer: an error, prose, bad or truncated JSON, an empty body, or a timeout.

    The question can be asked again (SLEEP-13).
    """

    def __init__(
        self,
        cause: str,
        *,
        used: Usage | None = None,
        passing: bool = False,
        retry_after_seconds: float | None = None,
        cut: Cut | None = None,
    ) -> None:
        """`cause` is for people and quotes nothing from a conversation; `used` is none where it is unknown.

        `passing` means that the provider is at fault (429, 5xx, no connection), not the question; `cut` says what
        the output's limit cut off.
        """
        super().__init__(cause)
        self.cause = cause
        self.used = used
        self.passing = passing
        self.retry_after_seconds = retry_after_seconds
        self.cut = cut


class ChatModel(Protocol):
    name: str
    """The provider's name of the model."""
    upstream: str
    """Name of the upstream in the configuration."""
    thinking_tokens: int
    """Output tokens that it needs for thinking, beside those of an answer."""

    async def ask(self, prompt: Prompt, output: type[T], *, most_tokens: int) -> tuple[T, Usage]:
        """Return the answer and its usage. `most_tokens` limits the output, reasoning included.

        Raises ModelAnswerError without an answer. A cancellation also cancels the request at the provider.
        """
        ...

    def price(self, used: Usage) -> int | None:
        """Return the price in billionths of a US dollar; none if it is unknown."""
        ...

    def worst_price(self, input_tokens: int, output_tokens: int) -> int | None:
        """Return the highest possible price of a question of this size; none if no price is known."""
        ...
