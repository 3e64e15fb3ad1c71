"""What the log of a server never holds, whoever writes to it."""

import json
import logging
import sys

import pytest

from circadia.ids import new_token
from circadia.server.app import collect_secrets
from circadia.settings import settings_from
from circadia.telemetry.logs import JsonFormatter, RedactingFormatter


def logged(text: str, *secrets: str) -> str:
    record = logging.LogRecord("circadia", logging.WARNING, __file__, 1, "%s", (text,), None)
    return RedactingFormatter(secrets).format(record)


@pytest.mark.spec("GATE-62", "WAKE-52")
@pytest.mark.parametrize("kind", ["agent", "admin", "pulse"])
def test_a_token_of_any_kind_is_not_logged(kind: str) -> None:
    token = new_token(kind)
    assert token not in logged(f"it was started with {token}, and failed")


@pytest.mark.spec("GATE-62")
def test_what_any_section_names_as_a_secret_is_not_logged() -> None:
    named = {
        "upstreams": {"openai": {"base_url": "http://127.0.0.1:1", "key_env": "UPSTREAM"}},
        "server": {"metrics_token_env": "METRICS", "database_url": "postgresql://localhost/circadia"},
        "signals_env": "SIGNALS",
        "fleet": {"alert_webhook_secret_env": "PAGER"},
        "mcp_servers": {
            "search": {"url": "http://127.0.0.1:1/mcp", "headers_env": {"authorization": "HEADER"}},
            "files": {"command": ["files"], "env_from": ["STDIO"], "env": {"PLAIN": "plain"}},
        },
        "launchers": {
            "loop": {"kind": "subprocess", "command": ["loop"], "env_from": ["PROGRAM", "NOT_SET"]},
            "boxed": {"kind": "container", "image": "agent:1", "env_from": ["BOX"]},
            "elsewhere": {"kind": "webhook", "url": "https://example.com/", "secret_env": "SIGNING"},
        },
        "memory": {
            "embedder": {
                "kind": "endpoint", "base_url": "http://127.0.0.1:1", "model": "m", "key_env": "EMBEDDER",
            },
        },
        "agents": {"ann": {"token_env": "ANN"}},
    }  # fmt: skip
    secret = {
        "UPSTREAM",
        "METRICS",
        "HEADER",
        "STDIO",
        "PROGRAM",
        "BOX",
        "SIGNING",
        "EMBEDDER",
        "ANN",
        "SIGNALS",
        "PAGER",
    }
    environment = {name: f"value-of-{name.lower()}" for name in (*secret, "PATH")}
    found = collect_secrets(settings_from(named), environment)
    assert set(found) == {environment[name] for name in secret}
    said = logged(" ".join(environment.values()), *found)
    assert [each for each in environment.values() if each in said] == [environment["PATH"]]


@pytest.mark.spec("GATE-62", "SHIP-13")
def test_a_line_of_json_holds_no_secret_either_not_in_its_fields_and_not_in_a_traceback() -> None:
    secret = 'a"secret\\with quotes'
    try:
        raise ValueError(secret)
    except ValueError:
        record = logging.LogRecord("circadia", logging.ERROR, __file__, 1, "%s\nmore", (secret,), sys.exc_info())
    record.fields = {"detail": secret, "usd": 1.5}
    line = JsonFormatter([secret]).format(record)
    assert "\n" not in line
    document = json.loads(line)
    assert (document["message"], document["detail"], document["usd"]) == ("[redacted]\nmore", "[redacted]", 1.5)
    assert document["exception"].endswith("ValueError: [redacted]")
    assert "with quotes" not in line
