"""Verify webhook requests in programs that a webhook starts: authenticity and novelty."""

import hmac
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, Final, cast

import orjson

from circadia.clock import Clock, SystemClock
from circadia.errors import InvalidRequest, Unauthenticated
from circadia.wake.launchers.signature import ID_HEADER, SIGNATURE_HEADER, TIMESTAMP_HEADER, signature, signing_key

TOLERANCE_SECONDS: Final = 300.0
"""Maximum difference between both clocks."""


class WebhookReceiver:
    """Verifies requests of the webhook launcher with one secret, and remembers accepted ones."""

    def __init__(
        self, secret: str, *, tolerance_seconds: float = TOLERANCE_SECONDS, clock: Clock | None = None
    ) -> None:
        """Store the signing secret.

        Raises:
            ConfigError: it is no base64 of 24 to 64 bytes.
        """
        self._key = signing_key(secret)
        self._tolerance_seconds = tolerance_seconds
        self._clock = clock or SystemClock()
        self._taken: OrderedDict[str, float] = OrderedDict()

    def verify(self, headers: Mapping[str, str], body: bytes) -> dict[str, Any]:
        """Verify a request and return its content; `body` must be the raw bytes.

        Raises:
            Unauthenticated: the signature is wrong or missing, or the timestamp too far away; answer 401.
            InvalidRequest: it is signed, but no JSON object; answer 400.
        """
        values = {name.lower(): value for name, value in headers.items()}
        message_id, stamp = values.get(ID_HEADER, ""), values.get(TIMESTAMP_HEADER, "")
        if not message_id or not (stamp.isascii() and stamp.isdigit()):
            raise Unauthenticated(f"the headers {ID_HEADER!r} and {TIMESTAMP_HEADER!r} are missing or malformed")
        if abs(self._clock.now().timestamp() - int(stamp)) > self._tolerance_seconds:
            raise Unauthenticated("the request's time stamp is too old or too new; compare the clocks of both machines")
        expected = signature(self._key, message_id, int(stamp), body).encode()
        signatures = values.get(SIGNATURE_HEADER, "").encode("utf-8", "replace").split()
        if not any(hmac.compare_digest(expected, signature) for signature in signatures):
            raise Unauthenticated("the request's signature is not by our secret")
        try:
            content: object = orjson.loads(body)
        except orjson.JSONDecodeError as error:
            raise InvalidRequest(f"the request is no JSON: {error}") from error
        if not isinstance(content, dict):
            raise InvalidRequest("the request is no JSON object")
        return cast("dict[str, Any]", content)

    def take(self, headers: Mapping[str, str]) -> bool:
        """Return whether a verified request is new, and remember it.

        Call it when the work is certain to begin, not before: after an answer of 503 with `Retry-After`, the request
        comes again with the same id.
        """
        now = self._clock.now().timestamp()
        while self._taken and next(iter(self._taken.values())) < now - 2 * self._tolerance_seconds:
            self._taken.popitem(last=False)
        message_id = next(value for name, value in headers.items() if name.lower() == ID_HEADER)
        if message_id in self._taken:
            return False
        self._taken[message_id] = now
        return True
