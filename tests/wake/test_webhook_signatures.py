"""Signatures of webhooks: what the senders' own libraries accept and refuse, and documented vectors."""

import time

import openai
import pytest
from standardwebhooks.webhooks import Webhook

from circadia.errors import ConfigError, Unauthenticated
from circadia.records.hook import HmacKeys, SignatureScheme
from circadia.wake.webhook_signatures import build_key, read_request, signature, signing_key, verify_request
from tests.wake.hook_senders import SECRETS, is_genuine, sign

BODY = '{"id": "evt_1", "event_id": "Ev1", "text": "grüße"}'.encode()
JUDGED = ("slack", "stripe", "standard")

pytestmark = pytest.mark.spec("WAKE-82")


def accepts(scheme: str, headers: dict[str, str], body: bytes, *, secret: str = "", now: float | None = None) -> bool:
    """Return whether we accept the request at this time, the present one unless given."""
    lowered = {name.lower(): value for name, value in headers.items()}
    kind = SignatureScheme(scheme)
    try:
        request = read_request(kind, lowered, body, HmacKeys.model_validate({}))
        keys = [build_key(kind, secret or SECRETS[scheme])]
        verify_request(request, keys, now=time.time() if now is None else now, tolerance_seconds=300)
    except Unauthenticated:
        return False
    return True


@pytest.mark.parametrize("scheme", JUDGED)
def test_we_judge_a_request_as_the_official_verifier_does(scheme: str) -> None:
    now = time.time()
    genuine = sign(scheme, BODY, at=now)
    assert is_genuine(scheme, genuine, BODY)
    assert accepts(scheme, genuine, BODY)
    wrong = "whsec_" + "A" * 32
    cases = {
        "another body": (genuine, BODY + b" "),
        "another secret": (sign(scheme, BODY, at=now, secret=wrong), BODY),
        "too old": (sign(scheme, BODY, at=now - 400), BODY),
    }
    for name, (headers, body) in cases.items():
        assert not is_genuine(scheme, headers, body), name
        assert not accepts(scheme, headers, body), name
    for header in genuine:
        rest = {key: value for key, value in genuine.items() if key != header}
        assert not is_genuine(scheme, rest, BODY), header
        assert not accepts(scheme, rest, BODY), header


def test_a_time_that_was_changed_after_signing_is_refused() -> None:
    now = time.time()
    for scheme, header in (("slack", "X-Slack-Request-Timestamp"), ("standard", "webhook-timestamp")):
        old = sign(scheme, BODY, at=now - 4_000)
        assert not accepts(scheme, {**old, header: str(int(now))}, BODY)
        assert not accepts(scheme, {**old, header: "soon"}, BODY)
    old = sign("stripe", BODY, at=now - 4_000)["Stripe-Signature"].partition(",")[2]
    assert not accepts("stripe", {"Stripe-Signature": f"t={int(now)},{old}"}, BODY)


def test_githubs_documented_vector_is_accepted() -> None:
    # docs.github.com, "Validating webhook deliveries", section "Testing the webhook payload validation".
    headers = {
        "X-Hub-Signature-256": "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17",
        "X-GitHub-Delivery": "72d3162e-cc78-11e3-81ab-4c9367dc0958",
    }
    assert accepts("github", headers, b"Hello, World!")
    assert not accepts("github", headers, b"Hello, World?")
    assert not accepts("github", {**headers, "X-Hub-Signature-256": "sha256="}, b"Hello, World!")
    assert not accepts("github", {"X-Hub-Signature-256": headers["X-Hub-Signature-256"]}, b"Hello, World!")


def test_slacks_documented_vector_is_accepted() -> None:
    # api.slack.com, "Verifying requests from Slack".
    body = (
        b"token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&channel_name="
        b"foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2F"
        b"hooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id="
        b"398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c"
    )
    headers = {
        "X-Slack-Request-Timestamp": "1531420618",
        "X-Slack-Signature": "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503",
    }
    assert accepts("slack", headers, body, now=1_531_420_618)
    assert not accepts("slack", headers, body, now=1_531_420_618 + 301)


def test_what_openais_client_accepts_we_accept() -> None:
    now = time.time()
    secret, headers = SECRETS["standard"], sign("standard", BODY, at=now)
    client = openai.OpenAI(api_key="k", webhook_secret=secret)
    client.webhooks.verify_signature(BODY, headers)
    assert accepts("standard", headers, BODY)
    ours = {**headers, "webhook-signature": signature(signing_key(secret), "delivery-1", int(now), BODY)}
    client.webhooks.verify_signature(BODY, ours)
    Webhook(secret).verify(BODY, ours)


def test_one_of_several_signatures_suffices_during_a_rotation() -> None:
    now = time.time()
    genuine = sign("standard", BODY, at=now)
    both = f"v1,{'A' * 43}= {genuine['webhook-signature']}"
    assert accepts("standard", {**genuine, "webhook-signature": both}, BODY)
    first = sign("stripe", BODY, at=now)["Stripe-Signature"]
    assert accepts("stripe", {"Stripe-Signature": first.replace("v1=", f"v1={'0' * 64},v1=")}, BODY)
    many = ",".join(f"v1={'0' * 64}" for _ in range(1_000))
    assert not accepts("stripe", {"Stripe-Signature": first.replace("v1=", f"{many},v1=")}, BODY)


def test_a_plain_hmac_follows_what_its_hook_says() -> None:
    keys = HmacKeys.model_validate(
        {
            "header": "X-Sum", "prefix": "sha512=", "algorithm": "sha512", "encoding": "base64",
            "timestamp_header": "X-At", "id_header": "X-Id",
        }
    )  # fmt: skip
    headers = {
        "x-sum": "sha512=A72NX35D6ekgiltPRe8cZc961v0a3sR2MQiKaBAZqJdABVfAJNSS/1ZAxGhXQJbNz1HX+7OsQsl7Xa0qWxgs1A==",
        "x-at": "1700000000", "x-id": "d1",
    }  # fmt: skip
    request = read_request(SignatureScheme.HMAC, headers, b"{}", keys)
    assert (request.delivery_id, request.timestamp, request.content) == ("d1", "1700000000", b"1700000000.{}")
    verify_request(request, [b"other", b"key"], now=1_700_000_000, tolerance_seconds=300)
    for keys_of_server, now in ([b"other"], 1_700_000_000), ([b"key"], 1_700_000_301):
        with pytest.raises(Unauthenticated):
            verify_request(request, keys_of_server, now=now, tolerance_seconds=300)
    for missing in ("x-sum", "x-at", "x-id"):
        with pytest.raises(Unauthenticated, match=missing):
            read_request(
                SignatureScheme.HMAC, {name: value for name, value in headers.items() if name != missing}, b"{}", keys
            )
    with pytest.raises(Unauthenticated, match="does not begin"):
        read_request(SignatureScheme.HMAC, {**headers, "x-sum": "md5=1"}, b"{}", keys)


def test_a_secret_by_standard_webhooks_is_base64_of_enough_bytes_and_is_not_repeated() -> None:
    for secret in ("whsec_not base64!", "whsec_c2hvcnQ="):
        with pytest.raises(ConfigError) as refused:
            build_key(SignatureScheme.STANDARD, secret)
        assert secret not in refused.value.message
