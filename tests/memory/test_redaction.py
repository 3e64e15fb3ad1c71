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
A, H = "a1B2" * 15, "0a1b2c3d" * 4
KEYS = (
    f"shpat_{H}", f"r8_{A[:37]}", f"ntn_{A[:46]}", f"sb_secret_{A[:31]}", f"sntrys_{A}", f"dckr_pat_{A[:27]}",
    f"glc_{A}", f"lsv2_pt_{H}_{H[:10]}", f"pscale_tkn_{A[:43]}", f"pplx-{A[:48]}", f"tvly-dev-{A[:32]}",
    f"GOCSPX-{A[:28]}", f"NRAK-{A[:27]}", f"PMAK-{H[:24]}-{H}", f"sq0csp-{A[:43]}", f"hvs.{A[:24]}",
    f"dp.st.dev.{A[:40]}", f"glrt-{A[:20]}", f"GR1348941{A[:20]}", f"ATATT3xFfGF0{A}", f"EAAB{A}", f"dapi{H}", f"SK{H}",
    f"key-{H}", f"AGE-SECRET-KEY-1{A.upper()}", f"{A[:14]}.atlasv1.{A}{A}", f"123456789:AA{A[:33]}",
)  # fmt: skip
"""What makers of keys put before or into them."""
WRITTEN = {
    "-----BEGIN PGP PRIVATE KEY BLOCK-----\n\nlQdG\n-----END PGP PRIVATE KEY BLOCK-----": "[redacted: private key]",
    f"https://hooks.slack.com/services/T0/B0/{A[:24]}": "https://hooks.slack.com/services/[redacted: key]",
    f"https://discord.com/api/webhooks/123456/{A}": "https://discord.com/api/webhooks/123456/[redacted: key]",
    f"https://x.example/b?sv=1&sig={A}&se=2": "https://x.example/b?sv=1&sig=[redacted: token]&se=2",
    f"x-amz-date=1&X-Amz-Signature={H}": "x-amz-date=1&X-Amz-Signature=[redacted: token]",
    f"Authorization: SSWS 00{A[:40]}": "Authorization: SSWS [redacted: token]",
    f"authorization: {H}": "authorization: [redacted: token]",
    f'"token": "{A}"': '"token": "[redacted: token]"',
    f"Set-Cookie: sid={A}; HttpOnly": "Set-Cookie: [redacted: cookie]",
    "**Password:** abc12345": "**Password:** [redacted: secret]",
    "`password`: `abc12345`": "`password`: `[redacted: secret]",
    r"{\"password\": \"abc12345\"}": r"{\"password\": \[redacted: secret]}",
    "<db.password>abc12345</db.password>": "<db.password>[redacted: secret]</db.password>",
    "curl -s -u admin:hunter22 https://x.example": "curl -s -u admin:[redacted: password] https://x.example",
    "machine x.example login bob password abc12345": "machine x.example login bob password [redacted: password]",
    "PIN: 4711": "PIN: [redacted: secret]",
    "mein Passwort ist Geheim123!": "mein Passwort ist [redacted: secret]",
    "contrase\u00f1a: Secreto": "contrase\u00f1a: [redacted: secret]",
    "\u5bc6\u7801\u662fabc12345": "\u5bc6\u7801\u662f[redacted: secret]",
    "\u043f\u0430\u0440\u043e\u043b\u044c: abc12345": "\u043f\u0430\u0440\u043e\u043b\u044c: [redacted: secret]",
    "4111\u00a01111\u00a01111\u00a01111, 4111.1111.1111.1111": "[redacted: card number], [redacted: card number]",
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
    "global-configuration-file-list-2024, key-value-store-with-32-items and the_secret_santa_list_of_the_team",
    "token: 4000 per minute, and the token = a word; cookie: chocolate chip",
    "Authorization: required before Friday, granted by Bob",
    "docker run -u 1000:1000 image; the login page password reset",
    "das Passwort ist lang, senha \u00e9 uma palavra",
    "the spin: 4711 rpm, pin: 12",
    "commit 3f2a9c1b8d7e6f5a4b3c2d1e0f9a8b7c6d5e4f3a of toolu_01A2b3C4d5E6f7G8h9J0kLmN",
    "epi_01a2036b108bee0b2e6260b3a10f, 892db2ae-06d9-49e5-8b3e-585ef9b85b8e, 192.168.100.1",
    "https://x.example/?auth=oauth2&token=short",
)


@pytest.mark.spec("MEM-14")
@pytest.mark.parametrize("text", SECRETS, ids=lambda text: text[:20])
def test_a_secret_gives_way_to_its_kind(text: str) -> None:
    assert redacted(text) == SECRETS[text]
    assert redacted(redacted(text)) == redacted(text)


@pytest.mark.spec("MEM-14")
@pytest.mark.parametrize("text", WRITTEN, ids=lambda text: text[:20])
def test_a_secret_is_found_however_it_is_written(text: str) -> None:
    assert redacted(text) == WRITTEN[text]
    assert redacted(redacted(text)) == redacted(text)


@pytest.mark.spec("MEM-14")
@pytest.mark.parametrize("key", KEYS, ids=lambda key: key[:8])
def test_a_key_is_known_by_what_its_maker_put_into_it(key: str) -> None:
    assert redacted(f"use {key}, please") == "use [redacted: key], please"


@pytest.mark.parametrize("text", PLAIN, ids=lambda text: text[:20])
def test_what_is_no_secret_stays(text: str) -> None:
    assert redacted(text) == text


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "piece",
    [
        "-----BEGIN PRIVATE KEY-----", "eyJaaaaaaaaa.", "a://", "a:", "bearer ", "password", "x_token ", "1 ", "4-",
        "sk-", "<circadia-memory ", "curl ", "curl -u a:", "token: ", "login a password ", "<password>", "cookie: a=",
        "authorization: ", "a_1", "shpat_a", "contrasena: ", "&sig=", "lsv2_pt_" + "a" * 20,
    ],
)  # fmt: skip
def test_a_long_text_that_nearly_matches_takes_no_long_time(piece: str) -> None:
    redacted(piece * (100_000 // len(piece)))


def test_a_secret_is_found_in_letters_that_a_pattern_takes_for_others() -> None:
    assert redacted("P\u0130N was 1234; pa\u017f\u017fword = hunter2!") == (
        "P\u0130N was [redacted: secret] pa\u017f\u017fword = [redacted: secret]"
    )
    assert redacted("\u212aEY: api_\u212aey=abcd") == "\u212aEY: api_\u212aey=[redacted: secret]"
