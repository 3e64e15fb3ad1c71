"""Secrets are taken out of texts, and other texts are left as they are."""

import pytest

from circadia.memory.redaction import redact

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
    f"key-{H}",
    f"phc_{A[:43]}", f"vck_{A[:56]}", f"re_{A[:8]}_{A[:24]}", f"sgp_{H[:16]}_{H}", f"xkeysib-{H}{H}-{A[:16]}",
    f"NRII-{A[:32]}", f"pul-{H}{H[:8]}", f"LTAI{A[:20]}", f"AKID{A[:32]}", f"1//0g{A[:50]}", f"bot123456789:AA{A[:33]}",
    f"M{A[:23]}.{A[:6]}.{A[:38]}", f"sl.{A}{A}", f"AKCp{A}{A[:9]}", f"sk.eyJ1Ijoi{A[:40]}.{A[:22]}", f"eyJrIjoi{A}",
    "A3-ABC123-DEF456-GH789-JK012-LM345-NP678", "5HueCGU8rMjxEXxiPuD5BDku4MkFqeZyd4dZ1jvhTVqvbTLvyTJ",
    f"AGE-SECRET-KEY-1{A.upper()}", f"{A[:14]}.atlasv1.{A}{A}", f"123456789:AA{A[:33]}",
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
    "MAIL_PASS = tulip77x": "MAIL_PASS = [redacted: secret]",
    "wifi pw: tulip77x": "wifi pw: [redacted: secret]",
    "Passphrase (old): tulip77x": "Passphrase (old): [redacted: secret]",
    "password: |\n  tulip77x": "password: |\n  [redacted: secret]",
    "the passcode tulip77x opens it": "the passcode [redacted: secret] opens it",
    "password \u2192 tulip!": "password \u2192 [redacted: secret]",
    "Bob's password's tulip!": "Bob's password's [redacted: secret]",
    "la password \u00e8 Tulipano7": "la password \u00e8 [redacted: secret]",
    "jelsz\u00f3: tulip77x": "jelsz\u00f3: [redacted: secret]",
    "\u0643\u0644\u0645\u0629 \u0627\u0644\u0645\u0631\u0648\u0631: tulip77x": (
        "\u0643\u0644\u0645\u0629 \u0627\u0644\u0645\u0631\u0648\u0631: [redacted: secret]"
    ),
    "\u092a\u093e\u0938\u0935\u0930\u094d\u0921: tulip77x": (
        "\u092a\u093e\u0938\u0935\u0930\u094d\u0921: [redacted: secret]"
    ),
    "m\u1eadt kh\u1ea9u: tulip77x": "m\u1eadt kh\u1ea9u: [redacted: secret]",
    f"my API key is {H}": "my API key is [redacted: key]",
    f"here is our Acme key {A[:30]}.": "here is our Acme key [redacted: key]",
    f"signing secret {H}": "signing secret [redacted: key]",
    f"the bot token: {A[:24]}": "the bot token: [redacted: token]",
    f"refreshToken='{A[:30]}'": "refreshToken=[redacted: secret]",
    "deploy --api-key tulip77x --region eu": "deploy --api-key [redacted: secret] --region eu",
    "mysqldump -h db -u root -ptulip77 shop": "mysqldump -h db -u root -p[redacted: password] shop",
    "sshpass -p tulip77 ssh ann@x": "sshpass -p [redacted: password] ssh ann@x",
    "- name: SMTP_PASSWORD\n  value: tulip77": "- name: SMTP_PASSWORD\n  value: [redacted: secret]",
    '<add key="ApiToken" value="tulip77"/>': '<add key="ApiToken" value=[redacted: secret]/>',
    "ENV STRIPE_KEY tulip77x": "ENV STRIPE_KEY [redacted: secret]",
    f"PHPSESSID={H}; path=/": "PHPSESSID=[redacted: cookie]; path=/",
    f"https://{H}@git.example/x.git": "https://[redacted: token]@git.example/x.git",
    f"https://x.example/cb?code={A[:30]}&state=1": "https://x.example/cb?code=[redacted: token]&state=1",
    "ann:$6$saltsalt$Zm9vYmFyZm9vYmFy:19000": "ann:[redacted: password hash]:19000",
    f'{{"kty": "EC", "x": "abc", "d": "{A[:43]}"}}': '{"kty": "EC", "x": "abc", "d": "[redacted: private key]"}',
    "PuTTY-User-Key-File-3: x\nPrivate-Lines: 1\nAAAAgQCx\nPrivate-MAC: 1": (
        "PuTTY-User-Key-File-3: x\nPrivate-Lines: 1\n[redacted: private key]\nPrivate-MAC: 1"
    ),
    "seed phrase: legal winner thank year wave sausage worth useful legal winner thank yellow": (
        "seed phrase: [redacted: seed phrase]"
    ),
    "cvc: 737, your verification code is 482913": "cvc: [redacted: code], your verification code is [redacted: code]",
    "social security number 078-05-1120": "social security number [redacted: code]",
    "2223 0031 2200 3222": "[redacted: card number]",
    "The password of the router is tulip!": "The password of the router is [redacted: secret]",
    "the PIN for my bank card is 4711": "the PIN for my bank card is [redacted: secret]",
    "das Passwort f\u00fcr den Router ist Tulpe!7": "das Passwort f\u00fcr den Router ist [redacted: secret]",
    "le mot de passe du routeur est tulipe!7": "le mot de passe du routeur est [redacted: secret]",
    "login admin / tulip77x": "login admin / [redacted: password]",
    "credentials: ann@example.com / tulip!77": "credentials: ann@example.com / [redacted: password]",
    "pay to DE89 3704 0044 0532 0130 00 today": "pay to [redacted: account number] today",
    "gb82west12345698765432, NO93-8601-1117-947": "[redacted: account number], [redacted: account number]",
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
    "per_pass: Spend = first_pass, which may pass tests/test8.py; password v2.0.1 of 2026",
    "this key presentation2 of theirs, our key customers, the token count per minute",
    "the seed was sown in rows by the whole of our small team on a very warm day in may",
    "use --token to sign in and --password $PASSWORD or --secret <name2>",
    "session_id=agent.session_id_of_the_caller, set NAME value, the error code is 500123",
    "mysql -u root -p shop, mysql -P 3306, redis-cli -h cache1",
    "the password of the router is on the label, and that for the shop is long",
    "login page / tests/test8.py, login flow / v2.0.1, the login form / a button",
    "DE88 3704 0044 0532 0130 00, GB82 WEST 1234 5698, AB12 CDEF, rows ab12 to cd34",
    "it costs $5$ or $6, name: Bob, value: 7 points",
)


@pytest.mark.spec("MEM-14")
@pytest.mark.parametrize("text", SECRETS, ids=lambda text: text[:20])
def test_a_secret_gives_way_to_its_kind(text: str) -> None:
    assert redact(text) == SECRETS[text]
    assert redact(redact(text)) == redact(text)


@pytest.mark.spec("MEM-14")
@pytest.mark.parametrize("text", WRITTEN, ids=lambda text: text[:20])
def test_a_secret_is_found_however_it_is_written(text: str) -> None:
    assert redact(text) == WRITTEN[text]
    assert redact(redact(text)) == redact(text)


@pytest.mark.spec("MEM-14")
@pytest.mark.parametrize("key", KEYS, ids=lambda key: key[:8])
def test_a_key_is_known_by_what_its_maker_put_into_it(key: str) -> None:
    assert redact(f"use {key}, please") == "use [redacted: key], please"


@pytest.mark.parametrize("text", PLAIN, ids=lambda text: text[:20])
def test_what_is_no_secret_stays(text: str) -> None:
    assert redact(text) == text


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "piece",
    [
        "-----BEGIN PRIVATE KEY-----", "eyJaaaaaaaaa.", "a://", "a:", "bearer ", "password", "x_token ", "1 ", "4-",
        "sk-", "<circadia-memory ", "curl ", "curl -u a:", "token: ", "login a password ", "<password>", "cookie: a=",
        "authorization: ", "a_1", "shpat_a", "contrasena: ", "&sig=", "lsv2_pt_" + "a" * 20,
        "my key ", "our a b key a1", "name: a_token, value: ", "seed phrase abc abc ",
        "Private-Lines: 1\na", "mysql -p", "redis-cli ", "mysql -u a ", "--secret a", "passphrase (a", "$6$a",
        "https://aaaaaaaaaaaaaaaaaaaaaa", "ENV A_KEY ", "cvv ", "MAAAAAAAAAAAAAAAAAAAAAAA.aaaaaa.", "5K",
        "password of a ", "mot de passe de ", "login a / ", "login a ", "DE89 3704 ", "ab12",
    ],
)  # fmt: skip
def test_a_long_text_that_nearly_matches_takes_no_long_time(piece: str) -> None:
    redact(piece * (100_000 // len(piece)))


def test_a_secret_is_found_in_letters_that_a_pattern_takes_for_others() -> None:
    assert redact("P\u0130N was 1234; pa\u017f\u017fword = hunter2!") == (
        "P\u0130N was [redacted: secret] pa\u017f\u017fword = [redacted: secret]"
    )
    assert redact("\u212aEY: api_\u212aey=abcd") == "\u212aEY: api_\u212aey=[redacted: secret]"
