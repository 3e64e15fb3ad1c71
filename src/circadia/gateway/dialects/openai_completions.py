"""OpenAI's legacy completions, which llama.cpp, vLLM and others still serve."""

from collections.abc import Sequence
from types import NoneType
from typing import cast

from circadia.errors import InvalidRequest
from circadia.gateway.dialects.base import Dialect, ModelRequest
from circadia.gateway.dialects.meters import BufferedMeter, Meter, StreamedMeter
from circadia.gateway.payload import fields
from circadia.gateway.payload import hash_chain as hashes
from circadia.gateway.payload.options import find_missing_usage, wants_usage
from circadia.gateway.payload.usage import completions_usage, only_usage
from circadia.llm.usage import Usage


class Completions(Dialect):
    """`POST …/completions`: a raw prompt has no turns, and a line at its end would be completed."""

    endpoint = "completions"

    def read_request(self, request: dict[str, object], body: bytes) -> ModelRequest:
        prompt = request.get("prompt")
        prompts = cast("list[object]", prompt) if isinstance(prompt, list) else [prompt]
        if not isinstance(prompt, (str, list, NoneType)):
            raise InvalidRequest(f"`prompt` is {fields.kind(prompt)}; send a string or a list")
        limit = fields.count(request, "max_tokens")
        choices = max(fields.count(request, "n") or 1, fields.count(request, "best_of") or 1)
        return ModelRequest(
            model=fields.text(request, "model"),
            streamed=fields.flag(request, "stream"),
            wants_usage=wants_usage(request),
            missing_usage=find_missing_usage(request),
            input_estimate=fields.input_estimate(body),
            output_limit=fields.product(limit, choices, _count(prompts)),
            turn=True,
            end_user=fields.text(request, "user"),
            chain=hashes.hash_chain("", [("prompt", prompts)]),
        )

    def meter(self, *, streamed: bool, take_usage_out: bool, chain: Sequence[str], words: bool = False) -> Meter:
        """Return a meter without hashes: a completion continues no conversation."""
        return _StreamedCompletion((), take_out=take_usage_out) if streamed else _BufferedCompletion(())


class _BufferedCompletion(BufferedMeter):
    def read_answer(self, answer: dict[str, object]) -> None:
        self.model = fields.as_text(answer.get("model"))
        self.usage = completions_usage(answer.get("usage")) or Usage()
        choices = fields.as_list(answer.get("choices"))
        self.complete, self.stop_reason = bool(choices), _find_stop_reason(choices)


class _StreamedCompletion(StreamedMeter):
    def read_event_data(self, frame: dict[str, object]) -> bool:
        if self.model is None:
            self.model = fields.as_text(frame.get("model"))
        usage = completions_usage(frame.get("usage"))
        if usage is not None:
            self.usage = usage
        choices = frame.get("choices")
        if reason := _find_stop_reason(fields.as_list(choices)):
            self.complete, self.stop_reason = True, reason
        return usage is not None and choices == [] and only_usage(frame)


def _find_stop_reason(choices: list[object]) -> str | None:
    return next(filter(None, (fields.as_text(fields.as_object(each).get("finish_reason")) for each in choices)), None)


def _count(prompts: list[object]) -> int:
    """Return the number of prompts; a list of numbers is one prompt of tokens."""
    return 1 if prompts and isinstance(prompts[0], int) else len(prompts)
