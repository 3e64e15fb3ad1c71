"""Sends expected questions to an agent's model as the agent's own calls would (ANS-01).

The provider receives the scope's own call with the expected question and the bank's context for it. Nothing is
captured or reported, and the sleep tier pays.
"""

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Final, TypeVar, cast

import orjson
from pydantic import BaseModel

from circadia.agents.access import is_allowed
from circadia.answers.question_drafts import AnticipatedAnswer, QuestionDraft
from circadia.answers.services import AnswerFinder
from circadia.clock import Clock
from circadia.errors import InvalidRequest, UpstreamFailed
from circadia.gateway.calls.headers import parse_seconds
from circadia.gateway.calls.paths import Refusal, resolve
from circadia.gateway.calls.upstream import Provider, is_stream
from circadia.gateway.dialects.base import Dialect
from circadia.gateway.dialects.frames import AnswerCodec
from circadia.gateway.payload.fields import as_object
from circadia.gateway.wire.base import ConnectFailed, ConnectTimedOut
from circadia.llm.chat_model import ModelAnswerError
from circadia.llm.chat_model import Prompt as Asking
from circadia.llm.providers import provider_at
from circadia.llm.usage import Usage
from circadia.memory.redaction import redact
from circadia.memory.services import MemoryServices
from circadia.records.agent import Agent
from circadia.records.answer import AnswerFrame, AnswerMode
from circadia.records.bank import Bank
from circadia.stores.base import Store, Tx

T = TypeVar("T", bound=BaseModel)

MAX_TOKENS: Final = 4_000
"""Output limit of an answer, including reasoning, unless the scope's calls allow less; longer ones are not kept."""
SECONDS: Final = 120.0
_LIMITS: Final[Mapping[str, tuple[str, ...]]] = {
    "chat_completions": ("max_tokens", "max_completion_tokens"),
    "responses": ("max_output_tokens",),
    "messages": ("max_tokens",),
}
"""Fields that limit the length of an answer, by dialect; OpenAI itself has the last."""
_ABOUT_THE_QUESTION: Final = frozenset({400, 413, 422})
"""Statuses caused by this question; any other status would meet any question."""
_NOTHING: Final = Usage(input_tokens=0, output_tokens=0)


@dataclass(frozen=True, kw_only=True, slots=True)
class _FrameTarget:
    provider: Provider
    dialect: Dialect
    codec: AnswerCodec


class GatewayAnswerDrafter:
    def __init__(
        self,
        clock: Clock,
        store: Store,
        memory: MemoryServices,
        finder: AnswerFinder,
        providers: Mapping[str, Provider],
    ) -> None:
        self._clock = clock
        self._store = store
        self._memory = memory
        self._finder = finder
        self._providers = providers

    async def find_agent(self, tx: Tx, bank: Bank, frame: AnswerFrame) -> Agent | None:
        """Return the frame's agent; None if it is gone, off, or may no longer reach bank, provider or model."""
        agent = await tx.agents.get(frame.scope.agent_id)
        if agent is None or agent.deleted_at is not None or not agent.enabled or self._resolve_target(frame) is None:
            return None
        policy = agent.policy
        models = policy.models is None or frame.model in policy.models
        if policy.answer_mode is AnswerMode.OFF or not models or not is_allowed(policy.upstreams, frame.upstream):
            return None
        bound = await self._memory.banks.resolve_bound_bank(tx, policy, frame.scope.end_user or None)
        return agent if bound is not None and bound.id == bank.id else None

    async def draft_question(
        self, bank: Bank, frame: AnswerFrame, question: str, *, known: Collection[str] = ()
    ) -> QuestionDraft | None:
        target = self._resolve_target(frame)
        limited = None if target is None else _limit_output(target, frame, question)
        if target is None or limited is None:
            return None
        body, max_tokens = limited
        prompt = target.dialect.prompt(body)
        if prompt is None:
            return None
        prepared_question = await self._memory.retrieval.prepare_question(question, explained=False)
        async with self._store.begin_read() as tx:
            present = await tx.banks.get(bank.id)
            agent = None if present is None else await self.find_agent(tx, present, frame)
            if present is None or agent is None:
                return None
            injects = agent.policy.inject
            asked = replace(prepared_question, zone=agent.coordination.zone)
            context = await self._memory.contexts.build(
                tx, present, asked if injects else None, known=(*prompt.texts, *known),
                stable_tokens=agent.policy.stable_tokens if injects else 0,
                fitting_tokens=agent.policy.fitting_tokens if injects else 0,
            )  # fmt: skip
            # The answer knows nothing of the agent's other banks, so a change there makes it a hint.
            banks = await self._memory.banks.resolve_layers(tx, agent.policy, frame.scope.end_user or None)
            basis = await self._finder.fetch_basis(tx, present, context, banks.others)
        headers = "\n".join(f"{name}: {value}" for name, value in frame.headers)
        return QuestionDraft(
            model=ReplayModel(self._clock, target.provider, target.codec, frame), most_tokens=max_tokens, basis=basis,
            prompt=Asking(
                rules=f"POST {frame.target}\n{headers}",
                data=prompt.with_context(context.stable, context.fitting).decode(),
            ),
        )  # fmt: skip

    def _resolve_target(self, frame: AnswerFrame) -> _FrameTarget | None:
        """Return where the calls of a frame go; None if the configuration no longer allows them."""
        provider = self._providers.get(frame.upstream)
        dialect = None if provider is None else provider.dialects.get(frame.dialect)
        if provider is None or dialect is None or dialect.answer_codec is None:
            return None
        path = frame.target.partition("?")[0].encode("ascii", "replace")
        route = resolve("POST", path, provider.rules)
        if isinstance(route, Refusal) or route.dialect != frame.dialect:
            return None
        return _FrameTarget(provider=provider, dialect=dialect, codec=dialect.answer_codec)


class ReplayModel:
    """An agent's model, called through one of its own calls. It returns only `AnticipatedAnswer`."""

    def __init__(self, clock: Clock, provider: Provider, codec: AnswerCodec, frame: AnswerFrame) -> None:
        self.name = frame.model
        self.upstream = provider.upstream.name
        self.thinking_tokens = 0
        self._clock = clock
        self._provider = provider
        self._codec = codec
        self._frame = frame

    async def ask(self, prompt: Asking, output: type[T], *, most_tokens: int) -> tuple[T, Usage]:
        """Send `prompt.data` as the body; return answer and usage. Raises ModelAnswerError without a usable answer."""
        began = self._clock.monotonic()
        try:
            async with asyncio.timeout(SECONDS):
                whole = await self._send_body(prompt.data.encode())
        except TimeoutError:
            raise ModelAnswerError(f"no answer within {SECONDS:g} s", passing=True) from None
        except UpstreamFailed as error:
            unsent = isinstance(error.__cause__, ConnectFailed | ConnectTimedOut)
            raise ModelAnswerError(
                "the provider did not answer", used=_NOTHING if unsent else None, passing=True
            ) from None
        answered = self._codec.parse_answer(whole)
        if answered is None:
            raise ModelAnswerError("the provider's answer was not of its API", passing=True)
        used = answered.usage
        text, reasoning = await asyncio.to_thread(lambda: (redact(answered.text), redact(answered.reasoning)))
        anticipated = AnticipatedAnswer(  # of a text with a secret in it nothing is left, so that it is not kept
            text=text if text == answered.text else "", reasoning=reasoning, called=answered.called, cut=answered.cut,
            tokens=(used.input_tokens or 0) + (used.output_tokens or 0), nanousd=self.price(used),
            seconds=self._clock.monotonic() - began, at=self._clock.now(),
        )  # fmt: skip
        return cast("T", anticipated), used

    async def _send_body(self, body: bytes) -> bytes:
        """Return the whole body of the answer. Raises ModelAnswerError, UpstreamFailed."""
        headers = [(b"content-type", b"application/json")]
        headers += [(name.encode("latin-1"), value.encode("latin-1")) for name, value in self._frame.headers]
        answer, whole = await self._provider.upstream.send("POST", self._frame.target, headers, body, again=False)
        try:
            if answer.status >= 400:
                raise ModelAnswerError(
                    f"the provider answered with status {answer.status}",
                    used=_NOTHING if answer.status < 500 else None,
                    passing=answer.status not in _ABOUT_THE_QUESTION,
                    retry_after_seconds=parse_seconds(answer.header(b"retry-after")),
                )  # fmt: skip
            if whole is None or is_stream(answer):
                raise ModelAnswerError("the provider sent a stream that was not requested", passing=True)
            return whole
        finally:
            answer.close()

    def price(self, used: Usage) -> int | None:
        return self._provider.prices.price(self.name, used, self._clock.now())

    def worst_price(self, input_tokens: int, output_tokens: int) -> int | None:
        return self._provider.prices.worst_price(self.name, input_tokens, output_tokens, self._clock.now())


def _limit_output(target: _FrameTarget, frame: AnswerFrame, question: str) -> tuple[bytes, int] | None:
    """Return the question's body with an output limit, and that limit; None if it cannot be asked.

    A limit changes only an answer that it cuts, and that one is not kept.
    """
    try:
        body = target.codec.build_question_body(frame.body, question)
        request = target.dialect.load(body)
        limit = target.dialect.read_request(request, body).output_limit
        thinking = as_object(request.get("thinking")).get("budget_tokens")
        max_tokens = MAX_TOKENS + (thinking if isinstance(thinking, int) else 0)  # the limit is above the budget
        if limit is not None and limit <= max_tokens:
            return body, limit
        names = _LIMITS[frame.dialect]
        default = names[-1] if provider_at(target.provider.upstream.settings.base_url) == "openai" else names[0]
        request[next((name for name in names if request.get(name) is not None), default)] = max_tokens
        return orjson.dumps(request), max_tokens
    except (ValueError, TypeError, LookupError, InvalidRequest):  # a frame of another version
        return None
