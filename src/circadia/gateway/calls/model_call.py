"""A checked model call and its provider."""

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
    """One upstream with its dialects and prices."""

    upstream: Upstream
    dialects: Mapping[str, Dialect]
    prices: PriceList
    rules: tuple[Rule, ...]


@per_call
class ModelCall:
    agent: Agent
    provider: Provider
    dialect: Dialect
    route: Route
    request: ModelRequest
    method: str
    target: str
    """Path and query after the upstream's base URL, unchanged."""
    headers: Sequence[tuple[bytes, bytes]]
    in_pulse: bool = False
    """Whether its token is that of a pulse."""
