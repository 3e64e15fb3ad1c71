"""`circadia answers`: what is ready, what a question would get, and what is dropped."""

import pytest

from circadia.records.answer import AnswerMode, LookupOutcome
from circadia.schemas import answers
from tests.cli.terminal import refused, run
from tests.fixtures.server_process import CircadiaProcess

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.mark.spec("ANS-01", "ANS-08")
async def test_a_bank_without_ready_answers_says_what_makes_them(operator: CircadiaProcess) -> None:
    assert (await run("banks", "add", "expects")).status == 0
    assert (await run("agents", "add", "expecting")).status == 0
    listed = await run("answers", "expects")
    assert listed.status == 0
    assert "no answer is ready" in listed.err
    tried = await run("answers", "test", "expects", "expecting", "When do you open?")
    assert "miss for expecting" in tried.out
    assert "no call of this agent" in tried.err
    counted = await run("answers", "stats", "expects", "--json")
    assert (counted.json["live"], counted.json["hit_rate"], counted.json["days"]) == (0, None, [])
    assert "wasted" in (await run("answers", "stats", "expects")).out
    assert "deleted 0 ready answers" in (await run("answers", "delete", "expects", "--all", "--yes")).out


async def test_a_wrong_name_or_an_unclear_drop_is_refused(operator: CircadiaProcess) -> None:
    assert (await run("banks", "add", "expects2")).status == 0
    refused(await run("answers", "nobank"), 4, "nobank")
    refused(await run("answers", "explain", "expects2", "ans_1"), 4, "no ready answer")
    refused(await run("answers", "delete", "expects2"), 2, "--all")
    refused(await run("answers", "delete", "expects2", "ans_1", "--all"), 2, "--all")
    refused(await run("answers", "delete", "expects2", "--all", "--json"), 2, "--yes")
    assert (await run("answers", "delete", "expects2", "--all", "--yes", "--json")).json["dropped"] == 0


@pytest.mark.spec("ANS-02")
async def test_each_step_of_a_test_is_a_line(operator: CircadiaProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = [
        "same text: no expected question has it",
        "judge: a model, which is asked once a call comes",
        "so it is a hint",
    ]

    async def tried(*_: object, **__: object) -> answers.TestView:
        return answers.TestView(
            bank="expects", agent="expecting", mode=AnswerMode.SERVE, trusted=True, outcome=LookupOutcome.HINT,
            answer=None, steps=steps, matches=[], frames=1,
        )  # fmt: skip

    monkeypatch.setattr("circadia.client.Client.try_answers", tried)
    told = await run("answers", "test", "expects", "expecting", "When do you open?")
    assert told.out == "hint for expecting in mode serve\n"
    assert told.err.splitlines() == steps
