"""A model with scripted answers."""

from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import TypeVar, cast

from pydantic import BaseModel

from circadia.llm.chat_model import ModelAnswerError, Prompt
from circadia.llm.usage import Usage

T = TypeVar("T", bound=BaseModel)

ScriptedAnswer = BaseModel | ModelAnswerError | BaseException
AnswerScript = Callable[[Prompt, type[BaseModel]], ScriptedAnswer | Awaitable[ScriptedAnswer]]


class ScriptedChatModel:
    """Answers by a function, or from a list in order; records the prompts."""

    def __init__(
        self,
        script: AnswerScript | Iterable[ScriptedAnswer],
        *,
        name: str = "scripted",
        used: Usage | None = None,
        thinking_tokens: int = 0,
    ) -> None:
        self.name = name
        self.upstream = "scripted"
        self.thinking_tokens = thinking_tokens
        self.asked: list[Prompt] = []
        self._used = used or Usage(input_tokens=100, output_tokens=10)
        if callable(script):
            self._script: AnswerScript = script
        else:
            answers: Iterator[ScriptedAnswer] = iter(script)
            self._script = lambda _, __: next(answers)

    async def ask(self, prompt: Prompt, output: type[T], *, most_tokens: int) -> tuple[T, Usage]:
        """Return the next scripted answer, or raise it if it is an exception."""
        self.asked.append(prompt)
        answer = self._script(prompt, output)
        if isinstance(answer, Awaitable):
            answer = await answer
        if isinstance(answer, BaseException):
            raise answer
        return cast("T", answer), self._used

    def price(self, used: Usage) -> int | None:
        """Return a billionth of a dollar for each token."""
        return (used.input_tokens or 0) + (used.output_tokens or 0)

    def worst_price(self, input_tokens: int, output_tokens: int) -> int | None:
        return input_tokens + output_tokens
