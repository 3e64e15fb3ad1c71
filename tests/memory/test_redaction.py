"""Secrets are taken out of texts, and other texts are left as they are."""

import pytest

from circadia.memory.redaction import redacted

SECRETS = {
    "the key is sk-proj-" + "a1B2" * 8: "the key is [redacted: key]",
    "sk-ant-api03-" + "x" * 40 + " works": "[redacted: key] works",
    "use AKIA" + "ABCDEFGH12345678" + " there": "use [redacted: key] there",
    "git clone with ghp_" + "a" * 36: "git clone with [redacted: key]",
    "github_pat_" + "a1_" * 12: "[redacted: key]",
    "xoxb-123456789012-abcdefGHIJ": "[redacted: key]",
    "AIza" + "a" * 35: "[redacted: key]",
    "sk_live_" + "a" * 24: "[redacted: key]",
    "circadia-agent-" + "a" * 43: "[redacted: key]",
    "it says eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl": "it says [redacted: token]",
    "Authorization: Bearer abc123def456ghi789": "Authorization: Bearer [redacted: token]",
    "Authorization: Basic dXNlcjpwYXNz": "Authorization: Basic [redacted: token]",
    "password=hunter2!": "password=[redacted: secret]",
    '{"api_key": "abcd 1234"}': '{"api_key": [redacted: secret]}',
    "AWS_SECRET_ACCESS_KEY = wJalrXUtnFEMI/K7MDENG": "AWS_SECRET_ACCESS_KEY = [redacted: secret]",
    "my password is Tr0ub4dor&3": "my password is [redacted: secret]",
    "postgres://ann:s3cr3t@db.example/app": "postgres://ann:[redacted: password]@db.example/app",
    "pay with 4111 1111 1111 1111 please": "pay with [redacted: card number] please",
    "5500-0000-0000-0004": "[redacted: card number]",
    "-----BEGIN RSA PRIVATE KEY-----\nMIIE\nabc\n-----END RSA PRIVATE KEY-----\nhere": "[redacted: private key]\nhere",
    "-----BEGIN PRIVATE KEY-----\nMIIE, the rest is cut": "[redacted: private key]",
}
PLAIN = (
    "My password is required to be long.",
    "the bearer of bad news",
    "Basic understanding of internationalization",
    "call me at +49 170 1234567",
    "the order 4111 1111 1111 1112 arrived",  # no card: its check digit is wrong
    "at 1700000000000 ms, 3.1415926535897932 and 2026-11-21T10:00:00",
    "see https://example.com/a:b and mailto:ann@example.com",
    "task-skip-list and risk-averse-investors-are-here",
    "a secret garden; the key question",
)


@pytest.mark.spec("MEM-14")
@pytest.mark.parametrize("text", SECRETS, ids=lambda text: text[:20])
def test_a_secret_gives_way_to_its_kind(text: str) -> None:
    assert redacted(text) == SECRETS[text]
    assert redacted(redacted(text)) == redacted(text)


@pytest.mark.parametrize("text", PLAIN, ids=lambda text: text[:20])
def test_what_is_no_secret_stays(text: str) -> None:
    assert redacted(text) == text


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "piece",
    [
        "-----BEGIN PRIVATE KEY-----", "eyJaaaaaaaaa.", "a://", "a:", "bearer ", "password", "x_token ", "1 ", "4-",
        "sk-", "<circadia-memory ",
    ],
)  # fmt: skip
def test_a_long_text_that_nearly_matches_takes_no_long_time(piece: str) -> None:
    redacted(piece * (100_000 // len(piece)))


def test_a_secret_is_found_in_letters_that_a_pattern_takes_for_others() -> None:
    assert redacted("P\u0130N was 1234; pa\u017f\u017fword = hunter2!") == (
        "P\u0130N was [redacted: secret] pa\u017f\u017fword = [redacted: secret]"
    )
    assert redacted("\u212aEY: api_\u212aey=abcd") == "\u212aEY: api_\u212aey=[redacted: secret]"
