"""Webhook signatures by Standard Webhooks 1.0: HMAC-SHA256 over id, time stamp and body."""

import base64
import binascii
import hashlib
import hmac
from typing import Final

from circadia.errors import ConfigError

ID_HEADER: Final = "webhook-id"
TIMESTAMP_HEADER: Final = "webhook-timestamp"
SIGNATURE_HEADER: Final = "webhook-signature"
_PREFIX: Final = "whsec_"
_MIN_KEY_BYTES: Final = 24
_MAX_KEY_BYTES: Final = 64


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


def signature(key: bytes, message_id: str, timestamp: int, body: bytes) -> str:
    """Return the value of `webhook-signature`; `timestamp` is in seconds since 1970."""
    content = b".".join((message_id.encode(), str(timestamp).encode(), body))
    return "v1," + base64.b64encode(hmac.digest(key, content, hashlib.sha256)).decode()
