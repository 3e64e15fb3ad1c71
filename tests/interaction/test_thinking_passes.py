"""A pass on a model that thinks, through a whole server: its room, an answer that is cut, and what thinking costs."""

from pathlib import Path
from typing import Any

import pytest

from circadia.llm.providers import Api
from circadia.sleeptime.operations.consolidate import ConsolidationAnswer
from circadia.testing.rule_based_model import ANSWER_BUILDERS
from circadia.testing.upstream import MockUpstream
from tests.interaction.live import KEY, live
from tests.llm.provider_stand import cut_while_thinking

TOLD = ("Ann lives in Porto.", "Ann has moved to Porto for good.")


def reply(request: dict[str, Any]) -> str:
    """Return what the scripted model notes of the prompt, with words around it."""
    content = request["messages"][-1]["content"]
    text = content if isinstance(content, str) else content[-1]["text"]
    return f"Gern: {ANSWER_BUILDERS[ConsolidationAnswer](text).model_dump_json()}"


@pytest.mark.spec("SLEEP-81", "SLEEP-83")
@pytest.mark.parametrize(
    ("api", "model", "limit"),
    [("openai", "gpt-5-mini", "max_completion_tokens"), ("anthropic", "claude-haiku-4-5", "max_tokens")],
)
async def test_a_model_that_thinks_has_room_and_its_pass_tells_what_that_cost(
    tmp_path: Path, api: Api, model: str, limit: str
) -> None:
    tier = {"when": "manual", "verify": "off", "model": {"upstream": api, "name": model, "reasoning": "low"}}
    async with (
        MockUpstream(key=KEY, reply=reply) as provider,
        live(tmp_path, banks={"ann": {}}, sleeptime=tier, provider=provider) as at,
    ):
        for text in TOLD:
            assert (await at.rest("POST", "/banks/ann/episodes", {"text": text, "speaker": "Ann"}))[0] == 201
        provider.next(body=cut_while_thinking(api, 2_400))
        asked = {"operations": ["consolidate"], "wait_seconds": 60}
        run = (await at.rest("POST", "/banks/ann/passes", asked))[1]
        assert (run["status"], run["counts"]["add_note"]) == ("succeeded", 1), run
        assert [each.json()[limit] for each in provider.requests] == [2_400, 4_800]
        (line,) = (await at.rest("GET", f"/passes/{run['id']}"))[1]["ledger"]
        assert (line["operation"], line["calls"], line["failed"], line["thinking_tokens"]) == (
            "consolidate",
            2,
            1,
            2_400,
        )
        assert 0 < line["thinking_usd"] < line["usd"]
        (balance,) = (await at.rest("GET", "/banks/ann/sleeptime"))[1]["balances"]
        assert {name: balance[name] for name in ("thinking_tokens", "thinking_usd")} == {
            name: line[name] for name in ("thinking_tokens", "thinking_usd")
        }
