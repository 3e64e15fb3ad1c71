"""A model call that passed all checks, and the provider that it goes to."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from circadia.gateway.calls.paths import Route, Rule
from circadia.gateway.calls.upstream import Upstream
from circadia.gateway.dialects.base import Dialect, ModelRequest
from circadia.llm.prices import PriceList
from circadia.records.agent import Agent
from circadia.records.per_call import per_call


@dataclass(frozen=True, kw_only=True, slots=True)
class Provider:
    """One upstream with what reads its calls."""

    upstream: Upstream
    """Sends."""
    dialects: Mapping[str, Dialect]
    """Read and write its bodies."""
    prices: PriceList
    """What its calls cost."""
    rules: tuple[Rule, ...]
    """The operator's own paths."""


@per_call
class ModelCall:
    """One model call that passed all checks."""

    agent: Agent
    """Who calls."""
    provider: Provider
    """Where to."""
    dialect: Dialect
    """What reads it."""
    route: Route
    """Which listed path it is."""
    request: ModelRequest
    """What its body says."""
    method: str
    """Its method."""
    target: str
    """Path and query behind the upstream's base URL, as they came."""
    headers: Sequence[tuple[bytes, bytes]]
    """Its headers, as they came."""
