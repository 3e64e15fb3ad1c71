"""Builds sleep-time compute: the part of `wiring` that picks its classes."""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import cache, partial
from typing import Final, TypeVar

from pydantic import BaseModel

from circadia.clock import Clock
from circadia.errors import ConfigError
from circadia.ids import IdSource
from circadia.llm.chat_model import ChatModel, Prompt
from circadia.llm.models import ModelSpec, open_batches, open_model
from circadia.llm.prices import PriceList
from circadia.llm.providers import cheap_model, price_warning
from circadia.llm.usage import Usage
from circadia.memory.services import MemoryServices
from circadia.network import find_forward_proxy
from circadia.server.context import read_secret
from circadia.settings import Settings
from circadia.settings.sleeptime import SleepModelSettings
from circadia.sleeptime.budget.batched_questions import BatchClient
from circadia.sleeptime.engine.pass_tasks import SleepContext
from circadia.sleeptime.engine.services import SleeptimeService
from circadia.sleeptime.grounding.change_rules import Rule
from circadia.sleeptime.grounding.source_check import check_grounding
from circadia.sleeptime.grounding.wording import check_wording
from circadia.sleeptime.operations.registry import choose_operations, load_own_operations
from circadia.sleeptime.publish.claim_verifier import ClaimVerifier
from circadia.sleeptime.publish.effects import Effects
from circadia.sleeptime.publish.publisher import Publisher
from circadia.sleeptime.triggers.pass_lifecycle import PassLifecycle
from circadia.stores.base import Store
from circadia.stores.signals.base import Signals
from circadia.suggestions import did_you_mean

_logger = logging.getLogger(__name__)

UNPRICED: Final = "; its price is unknown, so only limits of calls and tokens apply, not those in US dollars"

T = TypeVar("T", bound=BaseModel)

SleepModels = tuple[ChatModel | None, Callable[[str], ChatModel] | None]
"""The tier's model, and a factory for other models of its upstream."""

RULES: Final[Sequence[Rule]] = (check_wording, check_grounding)
AT_ONCE: Final = 16
"""Concurrent requests to a provider; a local model gets one at a time (SLEEP-14)."""


def build_sleeptime(
    settings: Settings, clock: Clock, ids: IdSource, memory: MemoryServices, model: ChatModel | None = None
) -> SleeptimeService:
    rows, publisher = PassLifecycle(clock, ids, memory.events), Publisher(clock, Effects(clock, memory))
    return SleeptimeService(clock, memory.events, settings.sleeptime, rows, publisher, model=model)


def build_sleep_parts(
    settings: Settings,
    ids: IdSource,
    store: Store,
    signals: Signals,
    sleeptime: SleeptimeService,
    memory: MemoryServices,
    models: SleepModels,
) -> SleepContext:
    """Return what passes run on. Raises ConfigError: a user-defined operation cannot be loaded."""
    if models[0] is None:
        _logger.info("%s", explain_missing_model(settings))
    own = load_own_operations(settings.sleeptime.own_operations)
    return SleepContext(
        store=store, signals=signals, ids=ids, sleeptime=sleeptime, operations=partial(choose_operations, own=own),
        rules=RULES, verify=ClaimVerifier(), retrieval=memory.retrieval, words=memory.words,
        model=models[0], models=models[1], open_batches=_open_batches,
        embed=None if memory.embedding is None else memory.embedding.catch_up,
    )  # fmt: skip


def explain_missing_model(settings: Settings) -> str:
    unknown = "no provider with a key among `upstreams` is known; name a model in `sleeptime`"
    return f"passes ask no model: {'so it is set' if settings.sleeptime.model else unknown}"


def build_sleep_models(
    settings: Settings, environment: Mapping[str, str], clock: Clock, stack: AsyncExitStack
) -> SleepModels:
    """Return the tier's model, if any, and the factory for an operation's own (SLEEP-41). Raises ConfigError."""
    at = _sleep_model_spec(settings, environment)
    if at is None:
        return None, None
    at = replace(at, proxy=find_forward_proxy(at.base_url, environment))
    one_at_a_time = isinstance(settings.sleeptime.model, SleepModelSettings) and settings.sleeptime.model.local
    turn = asyncio.Semaphore(1 if one_at_a_time else AT_ONCE)
    default = LazyChatModel(at, clock, stack, turn)
    _logger.info(
        "passes ask %s of upstream %r%s", at.model, at.upstream, UNPRICED if default.worst_price(1, 1) is None else ""
    )
    warning = price_warning(default, _foreground_models(settings), clock.now())
    if warning:
        _logger.warning("%s", warning)

    @cache
    def build_named_model(model: str) -> ChatModel:
        return LazyChatModel(replace(at, model=model), clock, stack, turn)

    return default, build_named_model


def _foreground_models(settings: Settings) -> Mapping[str, PriceList]:
    names = {name for agent in (settings.defaults, *settings.agents.values()) for name in agent.models or ()}
    lists = [PriceList(base_url=upstream.base_url, api=upstream.api) for upstream in settings.upstreams.values()]
    return {
        name: known for name in names if (known := next((prices for prices in lists if prices.has_model(name)), None))
    }


def _sleep_model_spec(settings: Settings, environment: Mapping[str, str]) -> ModelSpec | None:
    choice = settings.sleeptime.model
    if choice == "none":
        return None
    if choice is None:
        cheap_models = (
            (name, cheap_model(upstream.base_url, upstream.chat_api))
            for name, upstream in settings.upstreams.items()
            if upstream.key_env
        )
        first = next(((name, model) for name, model in cheap_models if model is not None), None)
        if first is None:
            return None
        choice = SleepModelSettings.model_validate({"upstream": first[0], "name": first[1]})
    upstream = settings.upstreams.get(choice.upstream)
    if upstream is None:
        hint = did_you_mean(choice.upstream, list(settings.upstreams))
        raise ConfigError(f"sleeptime.model.upstream: there is no upstream {choice.upstream!r}{hint}")
    model = choice.name or cheap_model(upstream.base_url, upstream.chat_api)
    if model is None:
        raise ConfigError(
            f"sleeptime.model.name: the cheap model of {upstream.base_url} is not known; name one, or write "
            "`sleeptime: {model: none}`"
        )
    return ModelSpec(
        upstream=choice.upstream, base_url=upstream.base_url, api=upstream.chat_api,
        key=read_secret(environment, f"upstreams.{choice.upstream}", upstream.key_env),
        key_header=upstream.key_header, model=model,
        timeout_seconds=choice.timeout_seconds, connect_timeout_seconds=upstream.connect_timeout_seconds,
        reasoning=choice.reasoning,
    )  # fmt: skip


async def _open_batches(model: ChatModel) -> BatchClient | None:
    return await model.open_batches() if isinstance(model, LazyChatModel) else None


class LazyChatModel:
    """A model that is opened at its first question, as the provider code is large to load."""

    def __init__(self, at: ModelSpec, clock: Clock, stack: AsyncExitStack, turn: asyncio.Semaphore) -> None:
        self.name = at.model
        self.upstream = at.upstream
        self.thinking_tokens = at.thinking_tokens
        self._at = at
        self._clock = clock
        self._stack = stack
        self._turn = turn
        self._opening: asyncio.Future[ChatModel] | None = None
        self._opening_batches: asyncio.Future[BatchClient] | None = None
        self._prices = PriceList(base_url=at.base_url, api=at.api)

    async def ask(self, prompt: Prompt, output: type[T], *, most_tokens: int) -> tuple[T, Usage]:
        if self._opening is None or (self._opening.done() and self._opening.exception() is not None):
            self._opening = asyncio.ensure_future(self._stack.enter_async_context(open_model(self._at, self._clock)))
        model = await asyncio.shield(self._opening)  # a caller that gives up leaves the opening to the next one
        async with self._turn:
            return await model.ask(prompt, output, most_tokens=most_tokens)

    async def open_batches(self) -> BatchClient:
        """Return the model's batches, opened at the first question."""
        if self._opening_batches is None or (
            self._opening_batches.done() and self._opening_batches.exception() is not None
        ):
            opening = self._stack.enter_async_context(open_batches(self._at, self._clock))
            self._opening_batches = asyncio.ensure_future(opening)
        return await asyncio.shield(self._opening_batches)

    def price(self, used: Usage) -> int | None:
        """In billionths of a US dollar; None if unknown."""
        return self._prices.price(self.name, used, self._clock.now())

    def worst_price(self, input_tokens: int, output_tokens: int) -> int | None:
        """The highest possible price of a question of this size, in the same unit."""
        return self._prices.worst_price(self.name, input_tokens, output_tokens, self._clock.now())
