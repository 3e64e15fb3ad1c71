"""Verify webhook requests in programs that a webhook starts: authenticity and novelty."""

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, Final, cast

import orjson

from circadia.clock import Clock, SystemClock
from circadia.errors import InvalidRequest
from circadia.wake.webhook_signatures import ID_HEADER, read_standard, signing_key, verify_request

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
        request = read_standard({name.lower(): value for name, value in headers.items()}, body)
        now = self._clock.now().timestamp()
        verify_request(request, [self._key], now=now, tolerance_seconds=self._tolerance_seconds)
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
