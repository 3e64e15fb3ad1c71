"""Signatures of webhooks, in both directions: an HMAC over the body and, with most senders, an id and a time.

Sources: Standard Webhooks 1.0 (which OpenAI and Anthropic follow, and our own webhooks too); GitHub "Validating webhook
deliveries"; Slack "Verifying requests from Slack"; Stripe "Verify webhook signatures manually".
"""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from circadia.errors import ConfigError, Unauthenticated
from circadia.records.hook import HmacKeys, SignatureScheme

ID_HEADER: Final = "webhook-id"
TIMESTAMP_HEADER: Final = "webhook-timestamp"
SIGNATURE_HEADER: Final = "webhook-signature"
_PREFIX: Final = "whsec_"
_MIN_KEY_BYTES: Final = 24
_MAX_KEY_BYTES: Final = 64
_MAX_DIGITS: Final = 12
_MAX_SIGNATURES: Final = 20
"""Signatures of one request that are compared."""

Headers = Mapping[str, str]
"""Headers of a request by their names in lower case."""


def signing_key(secret: str) -> bytes:
    """Return the key of a base64 secret, with or without `whsec_`. Raises ConfigError, which does not repeat it."""
    try:
        key = base64.b64decode(secret.strip().removeprefix(_PREFIX), validate=True)
    except (binascii.Error, ValueError) as error:
        raise ConfigError("the webhook secret is not base64; make one with `openssl rand -base64 32`") from error
    if not _MIN_KEY_BYTES <= len(key) <= _MAX_KEY_BYTES:
        raise ConfigError(
            f"the webhook secret has {len(key)} bytes, not 24 to 64; make one with `openssl rand -base64 32`"
        )
    return key


def sign(key: bytes, message_id: str, timestamp: int, body: bytes) -> dict[str, str]:
    """Return the headers of a request by Standard Webhooks; `timestamp` is in seconds since 1970."""
    return {
        ID_HEADER: message_id,
        TIMESTAMP_HEADER: str(timestamp),
        SIGNATURE_HEADER: signature(key, message_id, timestamp, body),
    }


def signature(key: bytes, message_id: str, timestamp: int, body: bytes) -> str:
    """Return the value of `webhook-signature`; `timestamp` is in seconds since 1970."""
    return "v1," + _encode_base64(hmac.digest(key, _standard_content(message_id, str(timestamp), body), "sha256"))


@dataclass(frozen=True, kw_only=True, slots=True)
class SignedRequest:
    """What a request says of its signature."""

    content: bytes
    """What the signature is over."""
    signatures: Sequence[str]
    """Any of them suffices: a sender adds one during a rotation."""
    timestamp: str | None = None
    delivery_id: str | None = None
    algorithm: str = "sha256"
    encode: Callable[[bytes], str] = field(default=bytes.hex)

    @property
    def digest(self) -> str:
        """The hash of what is signed: a replay has the same, whatever else it changes."""
        return hashlib.sha256(self.content).hexdigest()


def build_key(scheme: SignatureScheme, secret: str) -> bytes:
    """Return the key of a secret. Raises ConfigError: Standard Webhooks needs base64 of 24 to 64 bytes."""
    return signing_key(secret) if scheme is SignatureScheme.STANDARD else secret.encode()


def read_request(scheme: SignatureScheme, headers: Headers, body: bytes, keys: HmacKeys) -> SignedRequest:
    """Return what the request says of its signature; the HMAC's `keys` are for senders of no other scheme.

    Raises:
        Unauthenticated: a header is missing or malformed.
    """
    match scheme:
        case SignatureScheme.GITHUB:
            return _read_github(headers, body)
        case SignatureScheme.SLACK:
            return _read_slack(headers, body)
        case SignatureScheme.STRIPE:
            return _read_stripe(headers, body)
        case SignatureScheme.STANDARD:
            return read_standard(headers, body)
        case SignatureScheme.HMAC:
            return _read_hmac(headers, body, keys)


def verify_request(request: SignedRequest, keys: Sequence[bytes], *, now: float, tolerance_seconds: float) -> None:
    """Verify the signature by any of the keys, and the time against `now` in seconds since 1970.

    Raises:
        Unauthenticated: the signature is not by our secret, or the time is too far away.
    """
    given = [value.encode("utf-8", "replace") for value in request.signatures[:_MAX_SIGNATURES]]
    expected = [request.encode(hmac.digest(key, request.content, request.algorithm)).encode() for key in keys]
    if not any(hmac.compare_digest(one, other) for one in expected for other in given):
        raise Unauthenticated("the request's signature is not by our secret")
    if request.timestamp is not None and abs(now - int(request.timestamp)) > tolerance_seconds:
        raise Unauthenticated("the request's time stamp is too old or too new; compare the clocks of both machines")


def read_standard(headers: Headers, body: bytes) -> SignedRequest:
    """Return what a request by Standard Webhooks says of its signature. Raises Unauthenticated."""
    message_id, timestamp = headers.get(ID_HEADER, ""), headers.get(TIMESTAMP_HEADER, "")
    if not message_id or not _is_timestamp(timestamp):
        raise Unauthenticated(f"the headers {ID_HEADER!r} and {TIMESTAMP_HEADER!r} are missing or malformed")
    return SignedRequest(
        content=_standard_content(message_id, timestamp, body),
        signatures=headers.get(SIGNATURE_HEADER, "").split(),
        timestamp=timestamp,
        delivery_id=message_id,
        encode=lambda digest: "v1," + _encode_base64(digest),
    )


def _read_github(headers: Headers, body: bytes) -> SignedRequest:
    return SignedRequest(
        content=body,
        signatures=[_require(headers, "x-hub-signature-256").lower()],
        delivery_id=_require(headers, "x-github-delivery"),
        encode=lambda digest: "sha256=" + digest.hex(),
    )


def _read_slack(headers: Headers, body: bytes) -> SignedRequest:
    timestamp = _require_timestamp(headers, "x-slack-request-timestamp")
    return SignedRequest(
        content=b"v0:%b:%b" % (timestamp.encode(), body),
        signatures=[_require(headers, "x-slack-signature").lower()],
        timestamp=timestamp,
        encode=lambda digest: "v0=" + digest.hex(),
    )


def _read_stripe(headers: Headers, body: bytes) -> SignedRequest:
    parts = [part.strip().partition("=") for part in _require(headers, "stripe-signature").split(",")]
    timestamp = next((value for name, _, value in parts if name == "t"), "")
    if not _is_timestamp(timestamp):
        raise Unauthenticated("the header 'stripe-signature' has no time `t`")
    return SignedRequest(
        content=b"%b.%b" % (timestamp.encode(), body),
        signatures=[value.lower() for name, _, value in parts if name == "v1"],
        timestamp=timestamp,
    )


def _read_hmac(headers: Headers, body: bytes, keys: HmacKeys) -> SignedRequest:
    timestamp = None if keys.timestamp_header is None else _require_timestamp(headers, keys.timestamp_header)
    given = _require(headers, keys.header)
    if not given.startswith(keys.prefix):
        raise Unauthenticated(f"the signature in {keys.header!r} does not begin with {keys.prefix!r}")
    given = given[len(keys.prefix) :]
    return SignedRequest(
        content=body if timestamp is None else b"%b.%b" % (timestamp.encode(), body),
        signatures=[given.lower() if keys.encoding == "hex" else given],
        timestamp=timestamp,
        delivery_id=None if keys.id_header is None else _require(headers, keys.id_header),
        algorithm=keys.algorithm,
        encode=bytes.hex if keys.encoding == "hex" else _encode_base64,
    )


def _standard_content(message_id: str, timestamp: str, body: bytes) -> bytes:
    return b".".join((message_id.encode("utf-8", "replace"), timestamp.encode(), body))


def _encode_base64(digest: bytes) -> str:
    return base64.b64encode(digest).decode()


def _require(headers: Headers, name: str) -> str:
    value = headers.get(name)
    if not value:
        raise Unauthenticated(f"the header {name!r} is missing")
    return value


def _require_timestamp(headers: Headers, name: str) -> str:
    value = _require(headers, name)
    if not _is_timestamp(value):
        raise Unauthenticated(f"the header {name!r} is no time in seconds since 1970")
    return value


def _is_timestamp(value: str) -> bool:
    return value.isascii() and value.isdigit() and len(value) <= _MAX_DIGITS
