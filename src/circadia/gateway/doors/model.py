"""The model door: `/llm/{upstream}/…`.

A call is checked here: every error in it is reported before the hold (GATE-60). `Relay` takes it from there.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from starlette.types import Receive, Scope, Send

from circadia.agents.access import require_upstream
from circadia.agents.identity import Identity
from circadia.clock import Clock
from circadia.errors import Forbidden, MethodNotAllowed, NotFound, WebSocketRefused
from circadia.gateway.accounting.budget import CallBudgetGuard, has_budget, require_model
from circadia.gateway.accounting.id_owners import Owners
from circadia.gateway.calls.headers import (
    bearer,
    counts_events,
    first_value,
    header_timeout,
    parse_seconds,
    query_without_token,
)
from circadia.gateway.calls.paths import Refusal, Route, resolve
from circadia.gateway.calls.upstream import ModelCall, Provider
from circadia.gateway.dialects.base import Dialect, ModelRequest
from circadia.gateway.hold.bodies import BodiesInFlight, CallBody, run_off_loop
from circadia.gateway.hold.gate import Gate
from circadia.gateway.hold.reply import Reply, run_until_disconnect, send_error
from circadia.gateway.proxy.ledger import reservation
from circadia.gateway.proxy.relay import Relay
from circadia.gateway.proxy.reply_format import ModelReplyFormat
from circadia.settings import DefaultsSettings, LimitsSettings
from circadia.suggestions import did_you_mean

_SHORTEST_TIMEOUT_SECONDS = 1.0
"""Time-out of a caller who can be kept; one that gives up sooner gets the usual keep-alives."""
_ROUTES_KEPT = 1024
"""Maximum number of cached routes. A route depends on method, upstream and path alone."""


class ModelDoor:
    """ASGI application for `/llm`; `path` in the scope starts with it."""

    def __init__(
        self,
        clock: Clock,
        identity: Identity,
        gate: Gate,
        in_flight: BodiesInFlight,
        providers: Mapping[str, Provider],
        owners: Owners,
        budget: CallBudgetGuard,
        relay: Relay,
        defaults: DefaultsSettings,
        limits: LimitsSettings,
        fallback: Dialect,
    ) -> None:
        self._clock = clock
        self._identity = identity
        self._gate = gate
        self._in_flight = in_flight
        self._providers = providers
        self.owners = owners
        self._budget = budget
        self._relay = relay
        self._defaults = defaults
        self._limits = limits
        self._fallback = fallback
        self._routes: dict[tuple[str, str, bytes], Route] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        reply = Reply(send, ModelReplyFormat(self._fallback, streamed=False), self._defaults.keep_alive_seconds)
        body = CallBody(self._in_flight)
        try:
            call = await self._check_call(scope, receive, reply, body)
            grace_seconds = self._fit_keep_alives(call, reply)
            await run_until_disconnect(scope, receive, reply, self._relay.relay(call, body, reply, grace_seconds))
        except BaseException as error:  # noqa: BLE001 - the boundary of a door: whatever fails, its caller gets an answer
            await send_error(reply, error)
        finally:
            body.drop()
            self._gate.stop_keep_alive(reply)

    def _fit_keep_alives(self, call: ModelCall, reply: Reply) -> float:
        """Return how many seconds a held caller waits in silence, and fit the keep-alives to its own time-out."""
        read_timeout = parse_seconds(first_value(call.headers, b"x-stainless-read-timeout"))
        read_timeout = read_timeout or parse_seconds(first_value(call.headers, b"x-stainless-timeout"))
        if read_timeout is None and not call.request.streamed:
            read_timeout = header_timeout(call.headers)
        grace_seconds = self._defaults.hold_grace_seconds if call.request.streamed else self._defaults.silent_seconds
        if read_timeout and read_timeout >= _SHORTEST_TIMEOUT_SECONDS:
            grace_seconds = min(grace_seconds, read_timeout / 2)
            reply.keep_alive_at_least_every(read_timeout / 3)
        return grace_seconds

    async def _check_call(self, scope: Scope, receive: Receive, reply: Reply, body: CallBody) -> ModelCall:
        """Read the body and return the call, or raise its first error."""
        headers = scope["headers"]
        name, tail = _upstream_and_path(scope)
        provider = self._providers.get(name)
        if provider is not None:
            reply.reply_format = ModelReplyFormat(provider.dialects["plain"], streamed=False)
        principal = await self._identity.authenticate(bearer(headers))
        agent = principal.agent
        if agent is None:
            raise Forbidden("the model door takes an agent's token; make an agent with `circadia agents add NAME`")
        if provider is None:
            raise NotFound(f"no upstream {name!r} in the configuration{did_you_mean(name, self._providers)}")
        require_upstream(agent, name)
        route = self._route(provider, scope, tail)
        dialect = provider.dialects[route.dialect]
        reply.reply_format = ModelReplyFormat(dialect, streamed=False)
        content = await body.read(scope, receive, self._limits.max_model_body_bytes)
        request = ModelRequest(model=None)
        if content or scope["method"] == "POST":
            request = await run_off_loop(content, partial(dialect.parse_request, content))
        if route.model is not None:
            body_model = () if request.model is None else (request.model,)
            request = replace(request, model=route.model, instead=(*body_model, *request.instead))
        if route.streams and b"alt=sse" in scope["query_string"].split(b"&"):
            request = replace(request, streamed=True)
        reply.reply_format = ModelReplyFormat(
            dialect, streamed=request.streamed, counts_events=request.streamed and counts_events(headers)
        )
        require_model(agent, request, route)
        await self.owners.require(agent, name, (*route.owned_ids, *request.foreign_ids))
        await self.owners.require(agent, name, request.shared_ids, passes_unknown=True)
        query = query_without_token(headers, scope["query_string"])
        target = tail.decode("ascii") + ("?" + query.decode("latin-1") if query else "")
        call = ModelCall(
            agent=agent,
            provider=provider,
            dialect=dialect,
            route=route,
            request=request,
            method=scope["method"],
            target=target,
            headers=headers,
            in_pulse=principal.pulse_id is not None,
        )
        if route.generates and has_budget(agent.policy):
            tokens, nanousd = reservation(call, self._clock.now())
            await self._budget.check(agent, waiting=self._gate.count_held(agent.id), tokens=tokens, nanousd=nanousd)
        return call

    def _route(self, provider: Provider, scope: Scope, path: bytes) -> Route:
        method: str = scope["method"]
        key = (provider.upstream.name, method, path)
        cached_route = self._routes.get(key)
        if cached_route is not None:
            return cached_route
        route = resolve(method, path, provider.rules)
        if isinstance(route, Refusal):
            wanted = first_value(scope["headers"], b"upgrade")
            if isinstance(route.error, MethodNotAllowed) and wanted is not None and wanted.lower() == "websocket":
                raise WebSocketRefused("there are no WebSockets here; send the same to this path by POST")
            raise route.error
        if len(self._routes) < _ROUTES_KEPT:
            self._routes[key] = route
        return route


def _upstream_and_path(scope: Scope) -> tuple[str, bytes]:
    """Return the upstream's name and the remaining path, both still encoded."""
    raw: bytes = (scope.get("raw_path") or scope["path"].encode()).split(b"?", 1)[0]
    _, _, name, *rest = [*raw.split(b"/", 3), b"", b""][:4] if raw.startswith(b"/") else (b"", b"", b"", b"")
    return name.decode("latin-1"), b"/" + rest[0]
