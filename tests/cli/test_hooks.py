"""`circadia hooks`."""

import json

import pytest

from tests.cli.terminal import refused, run
from tests.fixtures.server_process import CircadiaProcess

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.spec("WAKE-82")]

KEYS = ("agent=filed", "signature=github", "secret_env=PATH")
"""PATH is a variable that each server has."""


async def test_a_hook_is_set_listed_shown_and_deleted(operator: CircadiaProcess) -> None:
    assert "there is no hook" in (await run("hooks")).err
    made = (await run("hooks", "set", "builds", *KEYS, "wake=blocker", "filter={body.ok: false}", "--json")).out
    assert json.loads(made)["filter"] == {"body.ok": False}
    table = (await run("hooks")).out
    for word in ("builds", "filed", "github", "PATH", "wake: blocker", "operator", "on"):
        assert word in table
    assert "body.ok" in (await run("hooks", "show", "builds")).out
    assert "accepted nothing" in (await run("hooks", "deliveries", "builds")).err
    assert "/hooks/builds" in (await run("hooks", "set", "builds", *KEYS, "enabled=false")).out
    assert "off" in (await run("hooks")).out
    assert "deleted" in (await run("hooks", "delete", "builds")).out
    assert "there is no hook" in (await run("hooks")).err


async def test_a_wrong_key_a_secret_that_is_not_set_and_an_unknown_hook_are_refused(operator: CircadiaProcess) -> None:
    refused(await run("hooks", "set", "x", "agent=filed", "signatur=github"), 2, "did you mean 'signature'")
    unset = ("agent=filed", "signature=github", "secret_env=NOT_SET_ANYWHERE")
    refused(await run("hooks", "set", "x", *unset), 2, "NOT_SET_ANYWHERE")
    refused(await run("hooks", "show", "x"), 4, "no hook 'x'")
