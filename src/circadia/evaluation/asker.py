"""Asks the model of an evaluation and counts what it used, whatever comes of it."""

from dataclasses import dataclass
from datetime import date
from typing import Final, TypeVar

from pydantic import BaseModel

from circadia.clock import Clock
from circadia.errors import UpstreamFailed
from circadia.llm.chat_model import ChatModel, ModelAnswerError, Prompt
from circadia.llm.usage import Usage

T = TypeVar("T", bound=BaseModel)

BYTES_A_TOKEN: Final = 4
"""About what tokenizers make of English; for what a provider does not count."""
TRIES: Final = 3
"""How often a provider is asked that is at fault."""
PAUSE_SECONDS: Final = 2.0
"""Before the second try, doubled for the third, unless the provider says how long."""
LONGEST_PAUSE_SECONDS: Final = 60.0
FAILURES_TO_GIVE_UP: Final = 3
"""Questions in a row that a provider answers nothing to, from the first on, before it is given up."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EvaluationUsage:
    """Tokens and calls."""

    prompt: int = 0
    generated: int = 0
    """With what the model thought."""
    calls: int = 0
    failed: int = 0
    """Calls that gave nothing of use."""

    def __add__(self, other: "EvaluationUsage") -> "EvaluationUsage":
        return EvaluationUsage(
            prompt=self.prompt + other.prompt,
            generated=self.generated + other.generated,
            calls=self.calls + other.calls,
            failed=self.failed + other.failed,
        )


class Asker:
    """Asks one model."""

    def __init__(self, mind: ChatModel, clock: Clock) -> None:
        self.mind: Final = mind
        self.estimated = 0
        """Calls whose tokens are taken from their bytes, since the provider told none."""
        self.spent = EvaluationUsage()
        """All calls."""
        self._clock = clock
        self._answered = False

    @property
    def today(self) -> date:
        """Return the date."""
        return self._clock.now().date()

    async def ask(self, prompt: Prompt, output: type[T], *, most_tokens: int) -> tuple[T | None, EvaluationUsage]:
        """Return the answer, none if it is of no use, and what it used.

        Raises:
            UpstreamFailed: the provider has not answered anything yet, and was asked often enough.
        """
        answer, spent = await self._ask_with_retries(prompt, output, most_tokens)
        self.spent += spent
        return answer, spent

    async def _ask_with_retries(
        self, prompt: Prompt, output: type[T], most_tokens: int
    ) -> tuple[T | None, EvaluationUsage]:
        spent = EvaluationUsage()
        for tried in range(1, TRIES + 1):
            try:
                answer, used = await self.mind.ask(prompt, output, most_tokens=most_tokens)
            except ModelAnswerError as error:
                self._answered = self._answered or bool(error.used is not None and error.used.output_tokens)
                spent += self._count_usage(prompt, "", error.used, failed=1)
                pause = error.retry_after_seconds or PAUSE_SECONDS * 2 ** (tried - 1)
                if error.passing and tried < TRIES and pause <= LONGEST_PAUSE_SECONDS:
                    await self._clock.sleep(pause)
                    continue
                if not self._answered and self.spent.failed + spent.failed >= FAILURES_TO_GIVE_UP:
                    raise UpstreamFailed(
                        f"the model {self.mind.name!r} of {self.mind.upstream!r} answers nothing: {error.cause}"
                    ) from error
                return None, spent
            self._answered = True
            return answer, spent + self._count_usage(prompt, answer.model_dump_json(), used)
        raise AssertionError("the last try returns or raises")

    def _count_usage(self, prompt: Prompt, answer: str, used: Usage | None, failed: int = 0) -> EvaluationUsage:
        """Return what a call used; where nothing came back, nothing is counted."""
        read, written = (None, None) if used is None else (used.input_tokens, used.output_tokens)
        if (read is None or written is None) and not failed:
            self.estimated += 1
            read, written = prompt.bytes // BYTES_A_TOKEN, len(answer.encode()) // BYTES_A_TOKEN
        return EvaluationUsage(prompt=read or 0, generated=written or 0, calls=1, failed=failed)
