"""`circadia eval`: what it prints and writes, with each kind of model, and what it refuses."""

import json
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from circadia.evaluation.arms import LikelyQuestions, ReasonedAnswer, RewrittenContext
from circadia.evaluation.memory.grading import Verdict
from circadia.evaluation.prompt_cases.cases import load_cases
from circadia.evaluation.scripted_model import (
    build_reply,
    build_rewritten_context,
    find_same_questions,
    predict_likely_questions,
)
from circadia.gateway.answers.judging import SameQuestions
from circadia.testing.upstream import MockUpstream
from tests.cli.terminal import refused, run
from tests.evaluation.stand import talk, written
from tests.house.tree import DOCS

pytestmark = pytest.mark.spec("ANS-10")

SMALL = ("eval", "stateful", "--contexts", "2", "--questions", "1,3", "--expected", "4")


@pytest.fixture(autouse=True)
def somewhere(home: Path) -> Path:
    return home


async def test_tables_bars_and_the_break_even_are_printed(home: Path) -> None:
    told = await run(*SMALL, "--out", "results")
    assert told.status == 0, told.err
    for word in ("Break-even", "By predictability", "wrong-hints", "█", "cost ×10", "properties", "Measured on"):
        assert word in told.out
    names = {path.name for path in (home / "results").iterdir()}
    assert names == {"results.json", "report.md", "cost-1.png", "cost-10.png", "predictability.png"}
    page = (home / "results" / "report.md").read_text("utf-8")
    assert "$ circadia eval stateful --model scripted --seed 1 --contexts 2 --questions 1,3 --expected 4" in page


async def test_a_folder_that_cannot_be_written_is_told_before_a_model_is_asked(home: Path) -> None:
    (home / "taken").write_text("a file", "utf-8")
    for words in (SMALL, ("eval", "locomo", "none.json")):
        told = await run(*words, "--out", "taken")
        assert "cannot be written" in told.err
        assert not told.out, "nothing was measured, nor was a file of talks looked for"


@pytest.mark.parametrize(
    "words", [("--contexts", "1", "--questions", "1,2,5"), ("--contexts", "3", "--questions", "1"), ("--seed", "4")]
)
async def test_pictures_are_written_whatever_the_contexts(home: Path, words: tuple[str, ...]) -> None:
    told = await run(*SMALL, *words, "--out", "o")
    assert told.status == 0, told.err
    document = json.loads((home / "o" / "results.json").read_text("utf-8"))
    ranges = [(each["lowest"], each["highest"]) for each in document["bins"] if each["arm"] == "none"]
    assert all(before[1] < after[0] for before, after in pairwise(ranges)), "no question can be in two of them"
    assert (home / "o" / "predictability.png").exists()


async def test_json_has_every_figure_of_each_arm_and_number_of_questions() -> None:
    document = (await run(*SMALL, "--json", "--seed", "9")).json
    assert document["complete"] is True
    keys = {(each["arm"], each["questions"]) for each in document["figures"]}
    arms = ("none", "learned", "answers", "hints", "wrong-hints", "both")
    assert keys == {(arm, questions) for arm in arms for questions in (1, 3)}
    for figure in document["figures"]:
        hot, sleep = (figure[f"{part}_prompt"] + figure[f"{part}_generated"] for part in ("hot", "sleep"))
        assert figure["cost_10"] == pytest.approx(10 * hot + sleep / figure["questions"])
        assert {"accuracy", "hits", "hints", "false", "cost_1", "cost_generated_10"} <= figure.keys()
    assert {each["weight"] for each in document["break_even"]} == {1, 10}
    assert sum(each["questions"] for each in document["bins"]) == 6 * len(arms)


async def test_contexts_are_written_in_json_lines_and_measured_again_from_there() -> None:
    made = (await run(*SMALL, "--json", "--arms", "none,answers", "--save-data", "made.jsonl")).json
    again = (await run(*SMALL, "--json", "--arms", "answers,none", "--data", "made.jsonl")).json
    assert made["figures"] == again["figures"]


async def test_data_that_the_scripted_model_cannot_read_are_said_to_be_so(home: Path) -> None:
    line = {"context": "Ann has 3 pears. She buys 4.", "question": "How many has she?", "answer": "#### 7"}
    (home / "data.jsonl").write_text(json.dumps(line), "utf-8")
    told = await run("eval", "stateful", "--data", "data.jsonl")
    assert told.status == 0, told.err
    assert "cannot read 1 of these 1" in told.out
    assert "is estimated" in told.out


@pytest.mark.parametrize(
    ("words", "status", "told"),
    [
        (("--data", "nothing.jsonl"), 4, "nothing.jsonl"),
        (("--questions", "0"), 2, "--questions"),
        (("--questions", "one"), 2, "--questions"),
        (("--arms", "none,some"), 2, "'some'"),
        (("--upstream", "nowhere"), 9, "'nowhere'"),
        (("--model", "nothing.gguf"), 4, "nothing.gguf"),
        (("--save-data", "no/such/folder"), 10, "--save-data"),
    ],
)
async def test_what_cannot_be_measured_is_refused(words: tuple[str, ...], status: int, told: str) -> None:
    refused(await run("eval", "stateful", "--contexts", "1", *words), status, told)


async def test_the_local_model_says_how_its_weights_are_fetched(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(home / "cache"))
    refused(await run("eval", "stateful", "--model", "local"), 10, "circadia model fetch smollm2")


def spoken(request: Mapping[str, Any]) -> str:
    """Answer as the scripted model does, over a provider's API."""
    data: str = request["messages"][-1]["content"]
    name: str = request["response_format"]["json_schema"]["name"]
    answers = {
        ReasonedAnswer.__name__: lambda: build_reply(data)[1],
        RewrittenContext.__name__: lambda: build_rewritten_context(data)[1],
        LikelyQuestions.__name__: lambda: predict_likely_questions(data, 3),
        SameQuestions.__name__: lambda: find_same_questions(data),
    }
    return answers[name]().model_dump_json()


async def test_a_configured_model_is_asked_and_the_calls_are_told_before(home: Path) -> None:
    async with MockUpstream(reply=spoken) as up:
        (home / "circadia.yaml").write_text(json.dumps({"upstreams": {"here": {"base_url": up.base_url}}}), "utf-8")
        words = ("eval", "stateful", "--upstream", "here", "--model", "m-1", "--contexts", "1", "--questions", "2")
        told = await run(*words, "--expected", "3", "--json")
        assert told.status == 0, told.err
        assert "m-1 of here gets up to 15 calls, or 45 with retries" in told.err
        assert 0 < len(up.requests) <= 15
        assert told.json["spent"] == {
            "prompt": told.json["spent"]["prompt"], "generated": told.json["spent"]["generated"],
            "calls": len(up.requests), "failed": 0, "estimated": 0,
        }  # fmt: skip
        assert {each["accuracy"] for each in told.json["figures"] if each["arm"] == "none"} == {1}


async def test_a_provider_that_answers_nothing_ends_the_run_with_its_cause(home: Path) -> None:
    async with MockUpstream() as up:
        for _ in range(3):
            up.next(status=400)
        (home / "circadia.yaml").write_text(json.dumps({"upstreams": {"here": {"base_url": up.base_url}}}), "utf-8")
        told = await run("eval", "stateful", "--upstream", "here", "--model", "m-1", "--contexts", "1")
        assert (told.status, told.out, len(up.requests)) == (8, "", 3)
        assert "status 400" in told.err.splitlines()[-1]


async def test_talks_are_measured_from_a_file(home: Path) -> None:
    path = written(home, [talk("one"), talk("two")])
    told = await run("eval", "locomo", str(path), "--talks", "1", "--out", "results")
    assert told.status == 0, told.err
    for word in ("recall, %", "context tokens", "full talk's tokens", "calls a turn", "spent no tokens", "█"):
        assert word in told.out
    document = json.loads((home / "results" / "results.json").read_text("utf-8"))
    assert document["sleep"]["model"] is None
    assert {path.name for path in (home / "results").glob("*.png")} == {"recall.png", "tokens.png"}
    scripted = (await run("eval", "locomo", str(path), "--talks", "1", "--model", "scripted", "--json")).json
    assert scripted["sleep"]["calls"] > 0
    refused(await run("eval", "locomo", "nothing.json"), 4, "nothing.json")


def answered(request: Mapping[str, Any]) -> str:
    """Answer what stands in the prompt, and judge as told."""
    name: str = request["response_format"]["json_schema"]["name"]
    if name == Verdict.__name__:
        return Verdict(reasoning="", right=False).model_dump_json()
    return ReasonedAnswer(reasoning="", answer="kitetown").model_dump_json()


@pytest.mark.spec("MEM-38")
async def test_answers_from_memory_are_asked_for_after_their_price_was_told(home: Path) -> None:
    document = talk("one")
    document["qa"] = [{"question": "Where did Bob's kite break?", "answer": "kitetown", "category": 1}]
    path = written(home, [document])
    async with MockUpstream(reply=answered) as up:
        (home / "circadia.yaml").write_text(json.dumps({"upstreams": {"here": {"base_url": up.base_url}}}), "utf-8")
        words = ("eval", "memory", "--data", str(path), "--upstream", "here", "--model", "m-1", "--out", "results")
        told = await run(*words, "--arms", "nothing,all,bm25,context", "--json")
        assert told.status == 0, told.err
        assert "4 answers of m-1 of here, with verdicts of m-1 of here: about" in told.err
        assert "an unknown price" in told.err
        assert {each["arm"]: each["right"] for each in told.json["arms"]} == dict.fromkeys(
            ("nothing", "all", "bm25", "context"), 1
        ), "a name is graded by rule"
        assert len(up.requests) == 4
        again = await run(*words, "--arms", "nothing,all,bm25,context")
        assert (again.status, len(up.requests)) == (0, 4), "all answers are there"
        assert "right, % (95 %)" in again.out
        more = await run(*words, "--arms", "nothing,all,bm25,context,recall")
        assert (more.status, len(up.requests)) == (0, 5)
    shown = (await run("eval", "memory", "--data", str(path), "--json")).json
    assert {each["arm"]: each["right"] for each in shown["arms"]} == {"nothing": 0, "all": 1, "bm25": 1, "context": 1}
    refused(await run("eval", "memory", "--data", "nothing.json"), 4, "nothing.json")
    refused(await run("eval", "memory", "--data", str(path), "--arms", "some"), 2, "no arm 'some'")


@pytest.mark.spec("SLEEP-80")
async def test_the_prompts_pass_with_the_hand_written_answers_and_the_docs_show_the_results(home: Path) -> None:
    result = await run("eval", "prompts", "--out", "results")
    assert result.status == 0, result.err
    table = "\n".join(line.rstrip() for line in result.out.partition("\n\n")[0].splitlines())
    page = (DOCS / "how-to" / "evaluate.md").read_text("utf-8")
    assert f"$ circadia eval prompts\n{table}\n```" in page, "paste what the command prints"
    document = json.loads((home / "results" / "results.json").read_text("utf-8"))
    assert {row["prompt"]: (row["passed"], row["failed"]) for row in document["prompts"]} == {
        row["prompt"]: (row["cases"], 0) for row in document["prompts"]
    }
    assert "pictures need" not in result.err, "there are none"
    refused(await run("eval", "prompts", "--prompt", "compares"), 2, "did you mean 'compare'")


def answer_cases(*wrong: str) -> Callable[[Mapping[str, Any]], str]:
    """Return what gives each case's right answer, but the wrong one to those with these names."""
    cases = [(each.build_prompt(), each) for each in load_cases()]

    def answer(request: Mapping[str, Any]) -> str:
        rules, data = (message["content"] for message in request["messages"])
        asked = next(each for prompt, each in cases if rules.startswith(prompt.rules) and data == prompt.data)
        given = asked.case.wrong if asked.case.name in wrong else asked.case.right
        return asked.output.model_validate(given).model_dump_json()

    return answer


@pytest.mark.spec("SLEEP-80")
@pytest.mark.parametrize(
    ("prompt", "wrong", "status", "failed", "of_judgement"),
    [
        ("compress", "", 0, 0, 0),
        ("compress", "a summary keeps days, numbers and the exception", 1, 1, 0),
        ("compress", "notes without a common subject have no summary", 0, 0, 1),
        ("same_question", "an order among the questions changes nothing", 1, 1, 0),
    ],
)
async def test_a_models_prompts_are_checked_after_the_price_was_said(
    home: Path, prompt: str, wrong: str, status: int, failed: int, of_judgement: int
) -> None:
    async with MockUpstream(reply=answer_cases(wrong)) as up:
        (home / "circadia.yaml").write_text(json.dumps({"upstreams": {"here": {"base_url": up.base_url}}}), "utf-8")
        words = ("eval", "prompts", "--upstream", "here", "--model", "m-1", "--prompt", prompt)
        result = await run(*words, "--json")
        count = len(up.requests)
        shown = await run(*words)
    assert (result.status, shown.status) == (status, status), result.err
    assert f"{count} questions to m-1 of here: about" in result.err
    assert "an unknown price" in result.err
    (row,) = result.json["prompts"]
    assert (row["prompt"], row["cases"], row["passed"]) == (prompt, count, count - failed - of_judgement)
    assert (row["failed"], row["of_judgement"]) == (failed, of_judgement)
    assert {each["case"] for each in result.json["results"] if each["faults"]} == ({wrong} if wrong else set())
    assert (f"{prompt}, {wrong!r}: " in shown.out) is bool(wrong)


@pytest.mark.spec("SLEEP-80")
async def test_a_model_that_answers_no_case_fails_the_run_with_its_cause(home: Path) -> None:
    async with MockUpstream() as up:
        up.next(times=50, status=400)
        (home / "circadia.yaml").write_text(json.dumps({"upstreams": {"here": {"base_url": up.base_url}}}), "utf-8")
        result = await run("eval", "prompts", "--upstream", "here", "--model", "m-1", "--at-once", "1")
    assert (result.status, len(up.requests)) == (8, 3)
    assert "answers no question" in result.err.splitlines()[-1]
