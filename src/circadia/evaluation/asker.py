"""Ask an evaluation's model, and count the usage of all calls, also of failed ones."""

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
"""About as tokenizers count English; used where a provider reports no usage."""
TRIES: Final = 3
"""Attempts when the provider is at fault."""
PAUSE_SECONDS: Final = 2.0
"""Pause before the second attempt, doubled before the third, unless the provider names one."""
MAX_PAUSE_SECONDS: Final = 60.0
FAILURES_TO_GIVE_UP: Final = 3
"""Unanswered questions, from the first on, after which a provider is given up."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EvaluationUsage:
    prompt: int = 0
    generated: int = 0
    """Including reasoning."""
    calls: int = 0
    failed: int = 0

    def __add__(self, other: "EvaluationUsage") -> "EvaluationUsage":
        return EvaluationUsage(
            prompt=self.prompt + other.prompt,
            generated=self.generated + other.generated,
            calls=self.calls + other.calls,
            failed=self.failed + other.failed,
        )


class Asker:
    def __init__(self, model: ChatModel, clock: Clock) -> None:
        self.model: Final = model
        self.estimated = 0
        """Calls whose tokens are estimated from their bytes, since the provider reported none."""
        self.spent = EvaluationUsage()
        self._clock = clock
        self._answered = False

    @property
    def today(self) -> date:
        return self._clock.now().date()

    async def ask(self, prompt: Prompt, output: type[T], *, most_tokens: int) -> tuple[T | None, EvaluationUsage]:
        """Return the answer, None if unusable, and the usage. Raises UpstreamFailed: the first questions all failed."""
        answer, spent = await self._ask_with_retries(prompt, output, most_tokens)
        self.spent += spent
        return answer, spent

    async def _ask_with_retries(
        self, prompt: Prompt, output: type[T], most_tokens: int
    ) -> tuple[T | None, EvaluationUsage]:
        spent = EvaluationUsage()
        for tried in range(1, TRIES + 1):
            try:
                room = most_tokens + self.model.thinking_tokens
                answer, used = await self.model.ask(prompt, output, most_tokens=room)
            except ModelAnswerError as error:
                self._answered = self._answered or bool(error.used is not None and error.used.output_tokens)
                spent += self._count_usage(prompt, "", error.used, failed=1)
                pause = error.retry_after_seconds or PAUSE_SECONDS * 2 ** (tried - 1)
                if error.passing and tried < TRIES and pause <= MAX_PAUSE_SECONDS:
                    await self._clock.sleep(pause)
                    continue
                if not self._answered and self.spent.failed + spent.failed >= FAILURES_TO_GIVE_UP:
                    raise UpstreamFailed(
                        f"the model {self.model.name!r} of {self.model.upstream!r} answers no question: {error.cause}"
                    ) from error
                return None, spent
            self._answered = True
            return answer, spent + self._count_usage(prompt, answer.model_dump_json(), used)
        raise AssertionError("the last try returns or raises")

    def _count_usage(self, prompt: Prompt, answer: str, used: Usage | None, failed: int = 0) -> EvaluationUsage:
        """Return the usage of a call; a failed call without reported usage counts nothing."""
        read, written = (None, None) if used is None else (used.input_tokens, used.output_tokens)
        if (read is None or written is None) and not failed:
            self.estimated += 1
            read, written = prompt.bytes // BYTES_A_TOKEN, len(answer.encode()) // BYTES_A_TOKEN
        return EvaluationUsage(prompt=read or 0, generated=written or 0, calls=1, failed=failed)
