"""The senders of webhooks: each signs with its own official library, where there is one for Python."""

import hashlib
import hmac
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

import stripe
from slack_sdk.signature import SignatureVerifier
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

SECRETS: Final = {
    "github": "It's a Secret to Everybody",
    "slack": "8f742231b10e8888abcd99yyyzzz85a5",
    "stripe": "whsec_test_secret_of_an_endpoint",
    "standard": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
    "hmac": "a plain secret",
}


def sign(scheme: str, body: bytes, *, at: float, delivery: str = "delivery-1", secret: str = "") -> dict[str, str]:
    """Return the headers of a request that this sender signs at a time in seconds since 1970."""
    secret = secret or SECRETS[scheme]
    seconds = str(int(at))
    match scheme:
        case "github":
            signed = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
            return {"X-Hub-Signature-256": f"sha256={signed}", "X-GitHub-Delivery": delivery}
        case "slack":
            signed = SignatureVerifier(secret).generate_signature(timestamp=seconds, body=body) or ""
            return {"X-Slack-Request-Timestamp": seconds, "X-Slack-Signature": signed}
        case "stripe":
            signed = hmac.new(secret.encode(), seconds.encode() + b"." + body, hashlib.sha256).hexdigest()
            return {"Stripe-Signature": f"t={seconds},v1={signed}"}
        case "standard":
            signed = Webhook(secret).sign(delivery, datetime.fromtimestamp(int(at), UTC), body.decode())
            return {"webhook-id": delivery, "webhook-timestamp": seconds, "webhook-signature": signed}
        case _:
            return {"X-Signature": hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()}


def is_genuine(scheme: str, headers: Mapping[str, str], body: bytes, *, secret: str = "") -> bool:
    """Return what the official verifier says of a request of this moment."""
    secret = secret or SECRETS[scheme]
    try:
        match scheme:
            case "slack":
                return SignatureVerifier(secret).is_valid_request(body, dict(headers))
            case "stripe":
                library: Any = stripe
                signature = headers["Stripe-Signature"]
                return bool(library.WebhookSignature.verify_header(body.decode(), signature, secret, tolerance=300))
            case _:
                Webhook(secret).verify(body, dict(headers))
                return True
    except (WebhookVerificationError, stripe.SignatureVerificationError, KeyError):
        return False
