"""The MCP doors: `/mcp` (Circadia's own tools) and `/mcp/{server}` (proxied servers).

Every server is an ASGI application. This door authenticates the caller, binds session ids to tokens, holds calls,
keeps the caller alive, and turns a late JSON answer into an event of the stream it opened.
"""

import asyncio
import base64
import hashlib
import hmac
import secrets
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from circadia.agents.access import require_may_act, require_mcp_server, require_member
from circadia.agents.identity import Identity
from circadia.clock import Clock
from circadia.errors import Forbidden, InvalidRequest, MethodNotAllowed, NotFound, TargetGone, UpstreamFailed
from circadia.gateway.calls.headers import bearer, first_value, without_token
from circadia.gateway.hold.approval_rules import read_tool_approval
from circadia.gateway.hold.approvals import CallApproval
from circadia.gateway.hold.bodies import BodiesInFlight, CallBody, run_off_loop
from circadia.gateway.hold.reply import Phase, Reply, run_until_disconnect, send_error
from circadia.gateway.mcp.messages import (
    TAKEN,
    WAIT_TOOLS,
    McpMessage,
    McpReplyFormat,
    ReplyAdapter,
    build_receive,
    json_event,
    read_message,
)
from circadia.gateway.model_call.hold import Admission, AsleepAgain, Gate, GateCall
from circadia.records.agent import Agent
from circadia.records.principal import Principal
from circadia.settings import DefaultsSettings, LimitsSettings
from circadia.stores.signals.base import Signals
from circadia.suggestions import did_you_mean

OWN = ""
"""Key of Circadia's own server, at `/mcp` without a name."""
SESSION = b"mcp-session-id"
_METHODS: Final = ("POST", "GET", "DELETE")

DeliveryCallback = Callable[[bool], Awaitable[None]]
CANCEL_TOPIC: Final = "mcp_cancel"
"""Signals name the key of a request that its client has cancelled at another gateway."""

JAVASCRIPT_SECONDS: Final = 55.0
"""Below 60 s, after which the MCP SDK for TypeScript gives up a request that did not ask for progress."""
_JAVASCRIPT: Final = ("node", "undici", "bun/", "deno/")
"""Prefixes of the user agents that fetch sends in Node, Bun and Deno."""


_MAC_BYTES = 16


class Seal:
    """Binds MCP session ids to their token without any state: the id contains its own proof (GATE-35).

    An outer id is the inner one (the proxied server's, or a random one of ours) and a MAC over it, the server's name
    and the owner's token hash. It survives a restart, cannot be used with another token or at another server, and a
    rotated token ends its sessions. The first key makes ids, any opens them; keys are secrets that survive restarts.
    """

    def __init__(self, keys: Sequence[bytes]) -> None:
        self._keys = keys

    def fresh(self, owner: str, server: str) -> str:
        """Return a new session id for a server that issues none."""
        return self.close(owner, server, secrets.token_hex(8))

    def close(self, owner: str, server: str, inner: str) -> str:
        """Return the owner's id for the server's `inner` id; `owner` is a token hash."""
        return f"{inner}.{_mac(self._keys[0], owner, server, inner)}"

    def open(self, owner: str, server: str, outer: str) -> str:
        """Return the inner id. Raises NotFound if it is not this owner's; MCP clients then start a new session."""
        inner, _, mac = outer.rpartition(".")
        macs = [_mac(key, owner, server, inner) for key in self._keys]
        if not inner or not any(hmac.compare_digest(mac.encode(), each.encode()) for each in macs):
            raise NotFound("no such MCP session for this token; initialize again")
        return inner


def _mac(key: bytes, owner: str, server: str, inner: str) -> str:
    text = "\n".join((owner, server, inner)).encode("utf-8", "surrogateescape")
    digest = hmac.digest(key, text, hashlib.sha256)[:_MAC_BYTES]
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


class McpDoor:
    """ASGI application for `/mcp`. `stateful` names the servers that issue their own session ids."""

    def __init__(
        self,
        clock: Clock,
        identity: Identity,
        gate: Gate,
        in_flight: BodiesInFlight,
        signals: Signals,
        seal: Seal,
        servers: Mapping[str, ASGIApp],
        stateful: frozenset[str],
        defaults: DefaultsSettings,
        limits: LimitsSettings,
    ) -> None:
        self._clock = clock
        self._identity = identity
        self._gate = gate
        self._in_flight = in_flight
        self._signals = signals
        self._seal = seal
        self._servers = servers
        self._stateful = stateful
        self._defaults = defaults
        self._limits = limits
        self._running_calls: defaultdict[str, set[McpCall]] = defaultdict(set)
        self._streams: set[asyncio.Timeout] = set()
        gate.presence.add_stop_listener(self._end_streams)
        signals.listen(CANCEL_TOPIC, self._on_cancel_signal)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        reply = Reply(send, McpReplyFormat(), self._defaults.keep_alive_seconds)
        body = CallBody(self._in_flight)
        try:
            await self._serve(scope, receive, reply, body)
        except BaseException as error:  # noqa: BLE001 - the boundary of a door: whatever fails, its caller gets an answer
            await send_error(reply, error)
        finally:
            body.drop()
            self._gate.ticker.drop(reply)

    async def _serve(self, scope: Scope, receive: Receive, reply: Reply, body: CallBody) -> None:
        server = scope["path"][4:].strip("/")
        principal = await self._identity.authenticate(bearer(scope["headers"]))
        require_member(principal)
        require_may_act(principal)
        if server not in self._servers:
            named = self._servers.keys() - {OWN}
            raise NotFound(f"no MCP server {server!r} in the configuration{did_you_mean(server, named)}")
        if server != OWN:
            if principal.agent is None:
                raise Forbidden("a proxied MCP server takes an agent's token; make one with `circadia agents add NAME`")
            require_mcp_server(principal.agent, server)
        if scope["method"] not in _METHODS:
            raise MethodNotAllowed(f"{scope['method']} is not possible on an MCP endpoint; use POST", allow=_METHODS)
        owner = principal.agent.token_hash if principal.agent else principal.name
        outer = first_value(scope["headers"], SESSION)
        inner = self._seal.open(owner, server, outer) if outer is not None else None
        call = McpCall(scope, principal, server, owner, inner)
        if scope["method"] == "POST":
            message = await self._read_message(scope, receive, server, body)
            reply.reply_format = McpReplyFormat(message.id, message.progress_token)
            await self._post(call, message, body, receive, reply)
        elif server in self._stateful:
            await run_until_disconnect(scope, receive, reply, self._forward_until_stop(call, reply))
        elif scope["method"] == "DELETE":
            await reply.send_whole(204, [], b"")
        else:
            raise MethodNotAllowed("this MCP endpoint sends no notifications; use POST", allow=("POST", "DELETE"))

    async def _read_message(self, scope: Scope, receive: Receive, server: str, body: CallBody) -> McpMessage:
        limits = self._limits
        max_bytes = (
            min(limits.max_mcp_body_bytes, limits.max_api_body_bytes) if server == OWN else limits.max_mcp_body_bytes
        )
        content = await body.read(scope, receive, max_bytes)
        message = await run_off_loop(content, partial(read_message, content))
        if message.batch and server == OWN:
            raise InvalidRequest("the body is a batch, which MCP no longer supports; send one message at a time")
        return message

    async def _post(self, call: "McpCall", message: McpMessage, body: CallBody, receive: Receive, reply: Reply) -> None:
        if message.cancels is not None:
            cancelled_key = call.key(message.cancels)
            if self._cancel(cancelled_key):
                await reply.send_whole(202, [], b"")
                return
            if call.has_session:  # else the key may be that of another connection's request
                self._signals.publish(CANCEL_TOPIC, cancelled_key)
        key = call.key(message.id)
        running_calls = self._running_calls[key]
        running_calls.add(call)
        try:
            await run_until_disconnect(call.scope, receive, reply, self._hold_and_answer(call, message, body, reply))
        except asyncio.CancelledError:
            if not call.cancelled:
                raise
            call.task.uncancel()
            await reply.end()  # MCP: a cancelled request gets no response
        finally:
            running_calls.discard(call)
            if not running_calls:
                self._running_calls.pop(key, None)

    async def _hold_and_answer(self, call: "McpCall", message: McpMessage, body: CallBody, reply: Reply) -> None:
        waits = call.server == OWN and message.method == "tools/call" and message.target in WAIT_TOOLS
        agent = call.principal.agent
        try:
            async with asyncio.timeout(self._wait_seconds(call, message) if waits else None):
                approval: CallApproval | None = None
                if agent is not None and agent.policy.approve_tools:
                    approval = await self._read_approval(call, agent, message, body)
                if agent is None or not (approval or message.is_held(lists=agent.policy.hold_lists)):
                    await self._answer_call(call, message, body.content, reply)
                    return
                call.gate_call = gate_call = GateCall(
                    agent=agent,
                    reply=reply,
                    body=body,
                    door="mcp",
                    to=call.server,
                    what=f"{message.method} {message.target}".strip(),
                    grace_seconds=self._defaults.hold_grace_seconds,
                    repeats_after_empty=waits,
                    in_pulse=call.principal.pulse_id is not None,
                    approval=approval,
                )
                await self._gate.pass_call(gate_call, partial(self._send_admitted, call, message, gate_call))
        except (TimeoutError, TargetGone) as error:
            is_over = waits and (isinstance(error, TimeoutError) or self._gate.presence.is_stopping)
            if not is_over or reply.phase >= Phase.ANSWERING:
                raise
            await self._answer_nothing_yet(call, message, reply)

    async def _read_approval(
        self, call: "McpCall", agent: Agent, message: McpMessage, body: CallBody
    ) -> CallApproval | None:
        """Return the approval that the message needs, if it needs one."""
        content = body.content
        read = partial(read_tool_approval, agent, call.server, message.method, content, is_batch=message.batch)
        request = await run_off_loop(content, read)
        return None if request is None else CallApproval(self._gate.approvals, request)

    def _wait_seconds(self, call: "McpCall", message: McpMessage) -> float | None:
        """Return the seconds after which a wait tool is answered with nothing; None for never."""
        if self._defaults.mcp_wait_answer_seconds is not None:
            return self._defaults.mcp_wait_answer_seconds
        program = (first_value(call.scope["headers"], b"user-agent") or "").lower()
        gives_up = program.startswith(_JAVASCRIPT) and message.progress_token is None
        return JAVASCRIPT_SECONDS if gives_up else None

    async def _send_admitted(
        self, call: "McpCall", message: McpMessage, gate_call: GateCall, admission: Admission
    ) -> None:
        """Send an admitted message. Raises AsleepAgain if the gate does not clear it."""
        if admission.was_held:
            await self._renew_rights(gate_call.agent, call)
            agent = call.principal.agent
            if gate_call.approval is None and agent is not None and agent.policy.approve_tools:  # the policy may be new
                gate_call.approval = await self._read_approval(call, agent, message, gate_call.body)
                if gate_call.approval is not None:
                    raise AsleepAgain
        await self._gate.wait_for_turn(gate_call)
        await self._gate.wait_to_send(gate_call)
        # Own tools take effect in their order; another server takes its messages in that order. Waits let others pass.
        self._gate.clear_to_send(gate_call, blocks_later_calls=not gate_call.repeats_after_empty)
        call.on_taken = partial(self._gate.leave_line, gate_call)
        await self._answer_call(call, message, gate_call.body.content, gate_call.reply)

    async def _answer_call(self, call: "McpCall", message: McpMessage, body: bytes, reply: Reply) -> None:
        if message.is_held(lists=False) and reply.phase is Phase.SILENT:
            self._gate.ticker.add(reply, self._clock.monotonic() + self._defaults.hold_grace_seconds)
        await self._forward(call, message, body, reply)

    async def _renew_rights(self, agent: Agent, call: "McpCall") -> None:
        """Update the call to its agent's current rights: a hold lasts hours, and rights are revoked meanwhile."""
        principal = await self._identity.authenticate(bearer(call.headers))
        if principal.agent is None or principal.agent.id != agent.id:
            raise Forbidden("this token is no longer this agent's")
        if call.server != OWN:
            require_mcp_server(principal.agent, call.server)
        call.principal = principal

    async def _forward(self, call: "McpCall", message: McpMessage, body: bytes | None, reply: Reply) -> None:
        callbacks: list[DeliveryCallback] = []
        adapter = ReplyAdapter(
            reply,
            message,
            call.server,
            lambda: self._gate.ticker.drop(reply),
            lambda headers: self._seal_headers(call, message, headers),
            self._limits.max_answer_bytes,
        )
        try:
            await self._servers[call.server](call.inner_scope(callbacks), build_receive(body), adapter.send)
            if reply.phase is not Phase.DONE:
                raise UpstreamFailed(f"MCP server {call.server!r} ended without an answer")
        except UpstreamFailed:
            await adapter.break_off()
            raise
        finally:
            for callback in callbacks:
                await asyncio.shield(callback(reply.phase is Phase.DONE))

    async def _forward_until_stop(self, call: "McpCall", reply: Reply) -> None:
        """Forward a request without a message; when the server stops, end its stream, which the client opens again."""
        try:
            async with asyncio.timeout(None) as limit:
                self._streams.add(limit)
                try:
                    await self._forward(call, McpMessage(), None, reply)
                finally:
                    self._streams.discard(limit)
        except TimeoutError:
            await reply.end()

    def _end_streams(self) -> None:
        for limit in self._streams:
            limit.reschedule(0.0)

    def _seal_headers(
        self, call: "McpCall", message: McpMessage, headers: list[tuple[bytes, bytes]]
    ) -> list[tuple[bytes, bytes]]:
        """Return the answer's headers with the session id bound to the caller's token."""
        inner = first_value(headers, SESSION)
        rest = [(name, value) for name, value in headers if name != SESSION]
        if inner is not None:
            return [*rest, (SESSION, self._seal.close(call.owner, call.server, inner).encode("latin-1"))]
        if message.method == "initialize" and call.server not in self._stateful:
            return [*rest, (SESSION, self._seal.fresh(call.owner, call.server).encode())]
        return rest

    async def _answer_nothing_yet(self, call: "McpCall", message: McpMessage, reply: Reply) -> None:
        """Answer a wait tool in its own shape, for a client that would give up (GATE-48)."""
        self._gate.ticker.drop(reply)
        text = {"type": "text", "text": "Nothing yet. Call this tool again to go on waiting."}
        result: dict[str, object] = {"content": [text], "structuredContent": WAIT_TOOLS[message.target]}
        if call.modern:
            result["resultType"] = "complete"
        body = McpReplyFormat(message.id).result(result)
        if reply.phase is Phase.OPENED:
            await reply.finish(json_event(body))
        else:
            await reply.send_whole(200, [(b"content-type", b"application/json")], body)

    def _on_cancel_signal(self, key: str, _: Mapping[str, object]) -> None:
        self._cancel(key)

    def _cancel(self, key: str) -> bool:
        """Cancel the requests with this key; return False if there are none, or if the server must be told."""
        has_cancelled = False
        named_calls = tuple(self._running_calls.get(key, ()))
        if len(named_calls) > 1 and not named_calls[0].has_session:  # of several connections: which one is unknown
            return False
        for call in named_calls:
            if call.is_at_gate or call.server not in self._stateful:
                call.cancelled = has_cancelled = True
                call.task.cancel()
        return has_cancelled


class McpCall:
    def __init__(self, scope: Scope, principal: Principal, server: str, owner: str, session: str | None) -> None:
        self.principal = principal
        self.server = server
        self.owner = owner
        self.gate_call: GateCall | None = None
        self.cancelled = False
        self.on_taken: Callable[[], None] = _do_nothing
        task = asyncio.current_task()
        assert task is not None
        self.task = task
        self.scope = scope
        self.headers: list[tuple[bytes, bytes]] = scope["headers"]
        self._session = session
        version = first_value(scope["headers"], b"mcp-protocol-version")
        self.modern = version is not None and version >= "2026"

    @property
    def has_session(self) -> bool:
        """Whether request ids belong to one connection only."""
        return self._session is not None

    @property
    def is_at_gate(self) -> bool:
        """Whether it is held, or waits for its turn: its server has not got it."""
        return self.gate_call is not None and not self.gate_call.is_cleared

    def key(self, request_id: object) -> str:
        """Return what a cancellation must match: a hash of caller, server, session and request."""
        request = repr((self.owner, self.server, self._session or "", request_id))
        return hashlib.blake2b(request.encode(), digest_size=16).hexdigest()

    def inner_scope(self, callbacks: list[DeliveryCallback]) -> Scope:
        """Return the scope for the server: its own session id, no token, and the caller."""
        headers = [header for header in without_token(self.scope["headers"]) if header[0] != SESSION]
        if self._session is not None:
            headers.append((SESSION, self._session.encode("latin-1")))
        return {
            **self.scope, "headers": headers, "circadia.principal": self.principal, "circadia.sent": callbacks,
            TAKEN: self.on_taken,
        }  # fmt: skip


def _do_nothing() -> None: ...
