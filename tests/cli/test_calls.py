"""`circadia calls`."""

from typing import Any

import pytest

from tests.cli.terminal import refused, run
from tests.cli.test_usage import call_model, settled
from tests.fixtures.server_process import CircadiaProcess

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.spec("UI-17")]


async def test_calls_are_listed_and_shown(operator: CircadiaProcess) -> None:
    tokens = await operator.create_session("made", [{"name": "ann"}, {"name": "bob"}])
    for name, model in (("ann", "gpt-4o-mini"), ("ann", "gpt-4o"), ("bob", "gpt-4o")):
        await call_model(operator, tokens[name], model)
    await settled("made", 3)
    page: Any = (await run("calls", "--session", "made", "--json")).json
    assert [(each["reference"], each["model"]) for each in page["calls"]] == [
        ("made:bob", "gpt-4o"), ("made:ann", "gpt-4o"), ("made:ann", "gpt-4o-mini"),
    ]  # fmt: skip
    some = ("calls", "--session", "made", "--agent", "ann", "--model", "gpt-4o", "--tier", "hot", "--status", "done")
    lines = (await run(*some, "--since", "2000-01-01", "--until", "2999-01-01")).out.splitlines()
    assert (len(lines), lines[0].split()[0], "made:ann" in lines[1]) == (2, "call", True)
    assert "no call" in (await run("calls", "--session", "made", "--status", "failed")).err
    assert "no call" in (await run("calls", "--session", "made", "--status", "held")).err
    shown = await run("calls", "show", page["calls"][0]["id"])
    assert "gpt-4o" in shown.out
    assert "stop reason" in shown.out
    assert "keeps no texts" in shown.err
    refused(await run("calls", "show", "call_x"), 4, "no call 'call_x'")
