"""Deliveries of webhooks: verified, filtered, and stored once with the message that they become (WAKE-82)."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast
from urllib.parse import parse_qsl

import orjson

from circadia.agents.directory import find_session, hold_agents
from circadia.clock import Clock
from circadia.errors import InvalidRequest
from circadia.records.event import EventType, HookDeliveryData
from circadia.records.hook import MAX_DELIVERY_ID, Hook, HookDelivery, HookOutcome, SignatureScheme
from circadia.records.message import build_hook_sender
from circadia.records.named_event import NamedEvent
from circadia.records.principal import Principal
from circadia.records.session import DEFAULT_SESSION, Session
from circadia.records.value_filter import build_filter, find_values, meets_all
from circadia.stores.base import Tx
from circadia.stores.event_log import EventLog
from circadia.stores.locks import request_key
from circadia.wake.hooks.service import HookService
from circadia.wake.inbox import Inbox, MessageReceipt, OutgoingMessage
from circadia.wake.named_events import NamedEvents
from circadia.wake.webhook_signatures import Headers, read_request, verify_request

MAX_VALUE_CHARACTERS: Final = 2_000
"""Characters of one value in a message by a template."""
MAX_DEPTH: Final = 100
"""Levels of a body: what is read, compared and shown of it takes as many calls in each other."""
_PLACE: Final = re.compile(r"\{((?:body|headers)(?:\.[^{}\s]+)?)\}")
_FORM: Final = "application/x-www-form-urlencoded"
_WITHHELD: Final = frozenset({"authorization", "cookie", "proxy-authorization"})
_OPERATOR: Final = Principal()


@dataclass(frozen=True, kw_only=True, slots=True)
class VerifiedDelivery:
    """A delivery whose sender has our secret."""

    hook: Hook
    id: str
    digest: str
    """Hash of what is signed."""
    values: Mapping[str, Any]
    """The parsed `body`, and the `headers`."""
    text: str
    """The body as it came."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DeliveryResult:
    outcome: HookOutcome
    answer: str = ""
    """What the sender's check of the address expects."""


class HookReceiver:
    """Verifies deliveries without the database, and stores those that pass the hook's filter."""

    def __init__(
        self, clock: Clock, events: EventLog, hooks: HookService, inbox: Inbox, named_events: NamedEvents,
        *, max_message_characters: int,
    ) -> None:  # fmt: skip
        self._clock = clock
        self._events = events
        self._hooks = hooks
        self._inbox = inbox
        self._named_events = named_events
        self._max_characters = max_message_characters

    def verify(self, hook: Hook, headers: Headers, body: bytes) -> VerifiedDelivery:
        """Return what a delivery brings.

        Raises:
            Unauthenticated: it is forged, or too old or too new. InvalidRequest: it is signed, but malformed.
            ConfigError: the hook's secret is not set at this server.
        """
        spec = hook.spec
        request = read_request(spec.signature, headers, body, spec.hmac)
        now = self._clock.now().timestamp()
        verify_request(request, self._hooks.read_keys(hook), now=now, tolerance_seconds=spec.tolerance_seconds)
        content = _parse_body(headers, body)
        signed_id = _SIGNED_IDS.get(spec.signature)
        delivery_id = request.delivery_id or (signed_id and content.get(signed_id)) or request.digest
        if not isinstance(delivery_id, str) or len(delivery_id) > MAX_DELIVERY_ID or "\0" in delivery_id:
            raise InvalidRequest(f"the delivery's id is no text of 1 to {MAX_DELIVERY_ID} characters")
        shown = {name: value for name, value in headers.items() if name not in _WITHHELD}
        return VerifiedDelivery(
            hook=hook, id=delivery_id, digest=request.digest, values={"body": content, "headers": shown},
            text=body.decode("utf-8", "replace"),
        )  # fmt: skip

    def judge(self, delivery: VerifiedDelivery) -> DeliveryResult | None:
        """Return the result of a delivery that needs no message, or None."""
        content, headers = delivery.values["body"], delivery.values["headers"]
        scheme = delivery.hook.spec.signature
        if scheme is SignatureScheme.SLACK and content.get("type") == "url_verification":
            return DeliveryResult(outcome=HookOutcome.ANSWERED, answer=str(content.get("challenge", "")))
        if scheme is SignatureScheme.GITHUB and headers.get("x-github-event") == "ping":
            return DeliveryResult(outcome=HookOutcome.ANSWERED, answer="pong")
        if not meets_all(build_filter(delivery.hook.spec.filter), delivery.values):
            return DeliveryResult(outcome=HookOutcome.FILTERED)
        return None

    async def store(self, tx: Tx, delivery: VerifiedDelivery) -> DeliveryResult:
        """Store the delivery as a message, with its wake request if the hook asks for one; a repeat changes nothing.

        Raises:
            NotFound: there is no such agent. Conflict: it is disabled, or another change came between.
        """
        hook, spec = delivery.hook, delivery.hook.spec
        session = await find_session(tx, _OPERATOR, DEFAULT_SESSION)
        keys = [request_key(f"hook {hook.name} {what}") for what in sorted((delivery.id, delivery.digest))]
        await hold_agents(tx, _OPERATOR, session, [] if spec.agent is None else [spec.agent], *keys)
        if await tx.hook_deliveries.is_known(hook.name, delivery.id, delivery.digest):
            return DeliveryResult(outcome=HookOutcome.DUPLICATE)
        receipt = None if spec.agent is None else await self._send(tx, session, delivery, spec.agent)
        row = HookDelivery(
            hook=hook.name, delivery_id=delivery.id, digest=delivery.digest, at=self._clock.now(),
            message_id=None if receipt is None else receipt.message.id,
            wake_id=None if receipt is None or receipt.wake is None else receipt.wake.id,
        )  # fmt: skip
        await tx.hook_deliveries.add(row)
        stated = {name: value for name, value in (("message", row.message_id), ("wake", row.wake_id)) if value}
        data = HookDeliveryData.model_validate({"hook": hook.name, "delivery": delivery.id, **stated})
        to = None if receipt is None else receipt.to
        await self._events.record(tx, EventType.HOOK_DELIVERY, data, session=to and to.session, agent=to and to.name)
        return DeliveryResult(outcome=HookOutcome.ACCEPTED)

    async def emit_event(self, tx: Tx, delivery: VerifiedDelivery) -> None:
        """Emit the hook's named event, before the delivery is stored: a repeat after a kill reaches nobody twice.

        Raises InvalidRequest: the body is too long for an event.
        """
        hook, name = delivery.hook, delivery.hook.spec.event
        if name is None or await tx.hook_deliveries.is_known(hook.name, delivery.id, delivery.digest):
            return
        event = NamedEvent(name=name, data=delivery.values["body"], key=f"hook {hook.name} {delivery.digest}")
        await self._named_events.emit(tx, event, by=f"hook {hook.name}")

    async def _send(self, tx: Tx, session: Session, delivery: VerifiedDelivery, agent: str) -> MessageReceipt:
        spec = delivery.hook.spec
        outgoing = OutgoingMessage(
            to=agent, content=self._render(delivery), priority=spec.priority, wake=spec.wake,
            sender=build_hook_sender(delivery.hook.name),
        )  # fmt: skip
        return await self._inbox.send(tx, _OPERATOR, session, outgoing)

    def _render(self, delivery: VerifiedDelivery) -> str:
        template, text = delivery.hook.spec.template, ""
        if template is not None:
            text = _PLACE.sub(lambda place: _show_value(delivery.values, place[1]), template)
        if not text.strip():
            text = f"Delivery {delivery.id} of the webhook {delivery.hook.name!r}:\n\n{delivery.text}"
        text = text.replace("\0", "\ufffd")
        if len(text) <= self._max_characters:
            return text
        end = f"\n[cut: {len(text)} characters]"
        return (text[: self._max_characters - len(end)] + end)[: self._max_characters]


_SIGNED_IDS: Final = {SignatureScheme.STRIPE: "id", SignatureScheme.SLACK: "event_id"}
"""Keys of the body that name the delivery."""


def _parse_body(headers: Headers, body: bytes) -> dict[str, Any]:
    """Return the JSON object of the body, or of the form that bears it. Raises InvalidRequest."""
    try:
        if headers.get("content-type", "").partition(";")[0].strip().lower() == _FORM:
            fields: dict[str, Any] = dict(parse_qsl(body.decode(), keep_blank_values=True))
            content: object = orjson.loads(fields["payload"]) if "payload" in fields else fields
        else:
            content = orjson.loads(body)
    except ValueError as error:
        raise InvalidRequest(f"the delivery is not JSON: {error}") from error
    if not isinstance(content, dict):
        raise InvalidRequest("the delivery is no JSON object")
    document = cast("dict[str, Any]", content)
    if body.count(b"[") + body.count(b"{") > MAX_DEPTH and _is_deeper(document, MAX_DEPTH):
        raise InvalidRequest(f"the delivery has more than {MAX_DEPTH} levels")
    return document


def _is_deeper(content: object, most: int) -> bool:
    """Return whether JSON has more levels of objects and lists."""
    level: Sequence[object] = [content]
    for _ in range(most + 1):
        level = [inner for each in level for inner in _get_members(each)]
    return bool(level)


def _get_members(value: object) -> Iterable[object]:
    if isinstance(value, dict):
        return cast("dict[str, object]", value).values()
    return cast("list[object]", value) if isinstance(value, list) else ()


def _show_value(values: Mapping[str, Any], key: str) -> str:
    """Return the values that a place of a template names, as text."""
    texts = [value if isinstance(value, str) else orjson.dumps(value).decode() for value in find_values(values, key)]
    text = ", ".join(texts)
    return text if len(text) <= MAX_VALUE_CHARACTERS else text[:MAX_VALUE_CHARACTERS] + "…"
