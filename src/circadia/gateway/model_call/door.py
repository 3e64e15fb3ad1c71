"""The model door: `/llm/{upstream}/…`.

Who calls, where to, with what: every error in a call is reported before the hold (GATE-60).
`ModelDoor.relay_admitted` is the order of what follows the hold: `prepare.py`, `send.py`, `answer.py`, `record.py`.
"""

import asyncio
import sys
from collections.abc import Awaitable, Hashable, Mapping
from dataclasses import replace
from functools import partial
from typing import Final

from starlette.types import Receive, Scope, Send

from circadia.agents.access import require_upstream
from circadia.agents.identity import Identity
from circadia.clock import Clock
from circadia.errors import Forbidden, MethodNotAllowed, NotFound, StillAsleep, UpstreamFailed, WebSocketRefused
from circadia.gateway.accounting.budget import CallBudgetGuard, has_budget, require_model
from circadia.gateway.accounting.id_owners import Owners
from circadia.gateway.answers.serving import wants_lookups
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
from circadia.gateway.dialects.base import Dialect, ModelRequest, Plain
from circadia.gateway.dialects.errors import is_too_long
from circadia.gateway.hold.approval_rules import read_model_approval
from circadia.gateway.hold.approvals import CallApproval
from circadia.gateway.hold.bodies import BodiesInFlight, CallBody, run_off_loop
from circadia.gateway.hold.reply import Phase, Reply, run_until_disconnect, send_error
from circadia.gateway.memory.conversations import apply_memory_header
from circadia.gateway.model_call.answer import AnswerWriter, ModelReplyFormat
from circadia.gateway.model_call.hold import Admission, AsleepAgain, Gate, GateCall
from circadia.gateway.model_call.prepare import Preparation
from circadia.gateway.model_call.record import Ledger, reservation
from circadia.gateway.model_call.resume import ResumableAnswers
from circadia.gateway.model_call.send import RelayedCall, send_call
from circadia.gateway.wire.base import ConnectFailed, ConnectTimedOut
from circadia.gateway.wire.connection import ProviderResponse
from circadia.records.agent import AgentPolicy, OnWake
from circadia.settings import DefaultsSettings, LimitsSettings
from circadia.suggestions import did_you_mean

_SHORTEST_TIMEOUT_SECONDS = 1.0
"""Time-out of a caller who can be kept; one that gives up sooner gets the usual keep-alives."""
_KEPT_BYTES = 2**20
"""Bytes of a body whose parsed form is kept for ready answers; a larger one is parsed again, or a burst of them would
leave the process larger than before (LARGE-07)."""
_ROUTES_KEPT = 1024
"""Maximum number of cached routes. A route depends on method, upstream and path alone."""
_SLEPT_SINCE = "the agent slept after this call was written; build it again and send it"


class ModelDoor:
    """ASGI application for `/llm`; `path` in the scope starts with it."""

    def __init__(
        self, clock: Clock, identity: Identity, gate: Gate, in_flight: BodiesInFlight,
        providers: Mapping[str, Provider], owners: Owners, budget: CallBudgetGuard, preparation: Preparation,
        writer: AnswerWriter, ledger: Ledger, answers: ResumableAnswers, defaults: DefaultsSettings,
        limits: LimitsSettings,
    ) -> None:  # fmt: skip
        self._clock = clock
        self._identity = identity
        self._gate = gate
        self._in_flight = in_flight
        self._providers = providers
        self.owners = owners
        self._budget = budget
        self._preparation = preparation
        self._writer = writer
        self._ledger = ledger
        self.answers: Final = answers
        self._defaults = defaults
        self._limits = limits
        self._fallback = Plain()
        self._routes: dict[tuple[str, str, bytes], Route] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        reply = Reply(send, ModelReplyFormat(self._fallback, streamed=False), self._defaults.keep_alive_seconds)
        body = CallBody(self._in_flight)
        try:
            call = await self._check_call(scope, receive, reply, body)
            if call.agent.policy.resume_seconds is not None and call.request.streamed and call.route.generates:
                answer = self.answers.open(call.agent, call.pulse_id, reply)
                work = answer.relay(self._relay(replace(call, id=answer.id), body, reply))
            else:
                work = self._relay(call, body, reply)
            await run_until_disconnect(scope, receive, reply, work)
        except BaseException as error:  # noqa: BLE001 - the boundary of a door: whatever fails, its caller gets an answer
            await send_error(reply, error)
        finally:
            body.drop()
            self._gate.ticker.drop(reply)

    def _relay(self, call: ModelCall, body: CallBody, reply: Reply) -> Awaitable[None]:
        """Hold the call while its agent sleeps; a call that generates nothing is neither held nor recorded."""
        if not call.route.generates:
            return self._pass_through(RelayedCall(call, reply, self._gate), body)
        gate_call = GateCall(
            agent=call.agent,
            reply=reply,
            body=body,
            door="model",
            to=call.provider.upstream.name,
            what=sys.intern(f"{call.method} {call.target.split('?', 1)[0]}"),
            grace_seconds=self._fit_keep_alives(call, reply),
            retry_key=_retry_key(call),
            in_pulse=call.pulse_id is not None,
            request=call.request,
            call_id=call.id,
        )
        if call.agent.policy.approves_model_calls:
            return self._approve_and_relay(call, gate_call)
        return self._gate.pass_call(gate_call, partial(self.relay_admitted, call, gate_call))

    async def _approve_and_relay(self, call: ModelCall, gate_call: GateCall) -> None:
        gate_call.approval = await self._read_approval(call, gate_call.body)
        await self._gate.pass_call(gate_call, partial(self.relay_admitted, call, gate_call))

    async def _read_approval(self, call: ModelCall, body: CallBody) -> CallApproval | None:
        """Return the approval that the call needs, if it needs one."""
        content, now = body.content, self._clock.now()
        request = await run_off_loop(content, partial(read_model_approval, call, content, now))
        return None if request is None else CallApproval(self._gate.approvals, request)

    async def relay_admitted(self, call: ModelCall, gate_call: GateCall, admission: Admission) -> None:
        """Prepare an admitted call, send it, pass its answer on, and record it whatever happens.

        Raises:
            AsleepAgain: the gate does not clear it, and nothing was sent.
        """
        if admission.was_held:
            call = await self._preparation.renew_rights(call)
            if gate_call.approval is None and call.agent.policy.approves_model_calls:  # the policy may be new
                gate_call.approval = await self._read_approval(call, gate_call.body)
                if gate_call.approval is not None:
                    raise AsleepAgain
            silent_seconds = self._defaults.silent_seconds if call.request.streamed else gate_call.grace_seconds
            self._gate.keep_alive(gate_call, silent_seconds)
        relayed = RelayedCall(call, gate_call.reply, self._gate, gate_call)
        if admission.has_slept and call.agent.policy.on_wake is OnWake.REFRESH and relayed.reply.phase is Phase.SILENT:
            await relayed.clear_without_sending()
            relayed.give_approval_back()
            raise StillAsleep(_SLEPT_SINCE, retry_after_seconds=1)
        entry = self._ledger.open_entry(relayed, await self._preparation.begin_turn(call), admission)
        try:
            answer = await self._preparation.prepare(relayed, entry, gate_call.body)
            if relayed.kept_bytes:
                relayed.request_start = (gate_call.body.with_additions or gate_call.body.content)[: relayed.kept_bytes]
            if answer is None:
                await self._exchange(relayed, gate_call.body)
            else:
                await relayed.clear_without_sending()
                await self._writer.write_ready_answer(relayed, answer)
        finally:
            if relayed.is_sent and relayed.did_nothing:
                relayed.give_approval_back()
            if relayed.is_sent:
                # After the answer: data written to the caller goes out at the end of this step of the event loop.
                asyncio.get_running_loop().call_soon(self._ledger.settle, entry)
            else:  # at once: it may be held again, and be reserved by the same id
                self._ledger.settle(entry)

    async def _pass_through(self, relayed: RelayedCall, body: CallBody) -> None:
        """Pass on a call that generates nothing."""
        call = relayed.call
        if call.dialect.counts_tokens:
            await self._preparation.prepare_count(call, body)
        ending = await self._preparation.find_ending_conversation(call) if call.method == "DELETE" else None
        await self._exchange(relayed, body)
        self._ledger.record_passed(relayed, ending)

    async def _exchange(self, relayed: RelayedCall, body: CallBody) -> None:
        """Send a prepared call, and pass the answer on."""
        answer: ProviderResponse | None = None
        try:
            answer, whole = await send_call(relayed, body)
            body.drop()
            relayed.status, relayed.first_byte_at = answer.status, self._clock.monotonic()
            if answer.status >= 400:
                relayed.is_too_long |= whole is not None and is_too_long(answer.status, whole)
                relayed.error_start = (whole or b"")[: relayed.kept_bytes]
                self._ledger.record_error(relayed.call, answer.status, "answered with an error")
            await self._writer.write_answer(relayed, answer, whole)
        except UpstreamFailed as error:
            relayed.is_free = isinstance(error.__cause__, ConnectFailed | ConnectTimedOut)
            self._ledger.record_error(relayed.call, None, error.message)
            raise
        finally:
            if answer is not None:  # the caller is gone or the rest is not wanted: end the upstream's work too
                answer.close()

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
        agent = None if principal.agent is None else apply_memory_header(principal.agent, headers)
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
            keeps = route.generates and dialect.answer_codec is not None and _looks_up_answers(agent.policy)
            request = await run_off_loop(content, partial(_read_request, dialect, body, keeps_document=keeps))
        if route.model is not None:
            body_model = () if request.model is None else (request.model,)
            request = replace(request, model=route.model, fallback_models=(*body_model, *request.fallback_models))
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
            pulse_id=principal.pulse_id,
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


def _looks_up_answers(policy: AgentPolicy) -> bool:
    return policy.bank is not None and wants_lookups(policy)


def _read_request(dialect: Dialect, body: CallBody, *, keeps_document: bool) -> ModelRequest:
    document = dialect.load(body.content)
    body.document = document if keeps_document and len(body.content) <= _KEPT_BYTES else None
    return dialect.read_request(document, body.content)


def _retry_key(call: ModelCall) -> Hashable:
    """Return what is equal for a call and its retry, which may no longer stream; None without a conversation."""
    head = call.request.chain[-1:]
    return (call.dialect.endpoint, call.request.model, *head) if any(head) else None
