"""`circadia answers`: what is ready, what a question would get, and what is dropped."""

import pytest

from tests.cli.terminal import refused, run
from tests.fixtures.server_process import CircadiaProcess

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.mark.spec("ANS-01", "ANS-08")
async def test_a_bank_without_ready_answers_says_what_makes_them(operator: CircadiaProcess) -> None:
    assert (await run("memory", "create", "expects")).status == 0
    assert (await run("agent", "add", "expecting")).status == 0
    listed = await run("answers", "list", "expects")
    assert listed.status == 0
    assert "no answer is ready" in listed.err
    tried = await run("answers", "test", "expects", "expecting", "When do you open?")
    assert "lookup: miss" in tried.out
    assert "no call of this agent" in tried.err
    counted = await run("answers", "stats", "expects", "--json")
    assert (counted.json["live"], counted.json["hit_rate"], counted.json["days"]) == (0, None, [])
    assert "wasted" in (await run("answers", "stats", "expects")).out
    assert "0 dropped" in (await run("answers", "drop", "expects", "--all", "--yes")).err


async def test_a_wrong_name_or_an_unclear_drop_is_refused(operator: CircadiaProcess) -> None:
    assert (await run("memory", "create", "expects2")).status == 0
    refused(await run("answers", "list", "nobank"), 4, "nobank")
    refused(await run("answers", "explain", "expects2", "ans_1"), 4, "no ready answer")
    refused(await run("answers", "drop", "expects2"), 2, "--all")
    refused(await run("answers", "drop", "expects2", "ans_1", "--all"), 2, "--all")
    refused(await run("answers", "drop", "expects2", "--all", "--json"), 2, "--yes")
    assert (await run("answers", "drop", "expects2", "--all", "--yes", "--json")).json["dropped"] == 0


@pytest.mark.spec("ANS-02")
@pytest.mark.parametrize(
    ("check", "confidence", "said"),
    [
        ("yes", 0.91, "the check decides: it says yes (0.91)"),
        ("no", None, "the check decides: it says no\n"),
        ("not_asked", None, "it was not asked"),
        (None, None, ""),
    ],
)
async def test_what_the_check_says_is_told(
    operator: CircadiaProcess, monkeypatch: pytest.MonkeyPatch, check: str | None, confidence: float | None, said: str
) -> None:
    async def tried(*_: object, **__: object) -> dict[str, object]:
        return {
            "bank": "expects", "agent": "expecting", "mode": "serve", "trusted": True, "outcome": "hint",
            "check": check, "check_confidence": confidence, "answer": None, "alone": True, "matches": [], "frames": 1,
        }  # fmt: skip

    monkeypatch.setattr("circadia.client.Client.try_answers", tried)
    told = await run("answers", "test", "expects", "expecting", "When do you open?")
    assert said in told.err
    assert ("the check" in told.err) == (check is not None)
