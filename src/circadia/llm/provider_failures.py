"""Maps the failures of a provider to `ModelAnswerError`."""

from typing import Final

from pydantic_ai.exceptions import (
    AgentRunError,
    ModelAPIError,
    ModelAuthenticationError,
    ModelConnectionError,
    ModelContextWindowExceededError,
    ModelHTTPError,
    ModelNotFoundError,
    ModelQuotaExceededError,
    ModelRateLimitError,
    ModelTimeoutError,
)

from circadia.llm.bounded_transport import LARGEST_BYTES, ResponseTooLarge
from circadia.llm.chat_model import ModelAnswerError
from circadia.llm.usage import Usage

_QUESTION_STATUSES: Final = frozenset({400, 413, 422})
"""Statuses that are the question's fault; all others would have met any question."""
_NO_TOKENS: Final = Usage(input_tokens=0, output_tokens=0)


def build_answer_error(error: AgentRunError) -> ModelAnswerError:
    """Return the error to raise instead of `error`.

    A refused or unsent request costs nothing; the cost is unknown if the answer was lost on the way or broke off.
    """
    if _is_too_large(error):
        return ModelAnswerError(f"the answer was larger than {LARGEST_BYTES} bytes")
    if isinstance(error, ModelHTTPError):
        status = error.status_code
        cause = f"the provider answered with status {status}{_advice(error)}"
        return ModelAnswerError(
            cause, used=_NO_TOKENS if 400 <= status < 500 else None, passing=status not in _QUESTION_STATUSES,
            retry_after_seconds=error.retry_after,
        )  # fmt: skip
    if isinstance(error, ModelConnectionError):
        slow = isinstance(error, ModelTimeoutError)
        if error.phase in ("pool", "connect"):
            return ModelAnswerError(f"no connection to the provider{' in time' * slow}", used=_NO_TOKENS, passing=True)
        return ModelAnswerError(
            "no answer in time" if slow else "the connection to the provider broke off", passing=True
        )
    if isinstance(error, ModelAPIError):
        return ModelAnswerError("the provider's answer was not of its API", passing=True)
    return ModelAnswerError("the provider's answer could not be read", passing=True)


def _is_too_large(error: BaseException | None) -> bool:
    while error is not None and not isinstance(error, ResponseTooLarge):
        error = error.__cause__
    return error is not None


def _advice(error: ModelHTTPError) -> str:
    if isinstance(error, ModelQuotaExceededError):
        return ": the account's quota or credit is used up"
    if isinstance(error, ModelRateLimitError):
        return ": too many requests"
    if isinstance(error, ModelAuthenticationError):
        return ": check the upstream's key"
    if isinstance(error, ModelNotFoundError):
        return ": it does not know the model, or `base_url` is wrong"
    if isinstance(error, ModelContextWindowExceededError):
        return ": the question is longer than the model can read"
    return ""
