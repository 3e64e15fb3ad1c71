"""How often a proxied call asks the database for its conversation: at most once, and never for what is remembered."""

from pathlib import Path
from typing import Any

import pytest

from circadia.testing.upstream import MockUpstream
from tests.interaction.live import CHAT, KEY, Live, live
from tests.recording.statement_recorder import SentStatement, recorded

pytestmark = pytest.mark.spec("LARGE-03", "GATE-67", "GATE-96")


@pytest.fixture(params=["sqlite", "postgres"])
def sections(request: pytest.FixtureRequest) -> dict[str, Any]:
    """The configuration of a server on each database."""
    url = request.getfixturevalue("postgres_url") if request.param == "postgres" else None
    return {} if url is None else {"server": {"database_url": url}}


async def ask(at: Live, token: str, messages: list[Any], **headers: str) -> tuple[str, int]:
    """Make a call; return its answer and how many statements looked for its conversation."""
    sent: list[str] = []

    def take(statement: SentStatement) -> None:
        if statement.text.startswith("SELECT") and "FROM conversations" in statement.text:
            sent.append(statement.text)

    with recorded(take):
        async with at.call(token, body={**CHAT, "messages": messages}, headers=headers) as response:
            assert response.status == 200
            answer = (await response.json())["choices"][0]["message"]["content"]
        await at.server.journal.flush()
    return answer, len(sent)


def said(*texts: str) -> list[dict[str, str]]:
    """Return a history in which user and model speak by turns."""
    return [{"role": "assistant" if place % 2 else "user", "content": text} for place, text in enumerate(texts)]


async def test_a_call_looks_its_conversation_up_once_at_most_and_only_if_it_has_an_answer_that_is_not_remembered(
    tmp_path: Path, sections: dict[str, Any]
) -> None:
    async with live(tmp_path, **sections) as at:
        token = await at.agent()
        prompt = [{"role": "system", "content": "be short"}]
        answer, first = await ask(at, token, [*prompt, *said("hello")])
        _, same = await ask(at, token, [*prompt, *said("hello")])
        assert (first, same) == (0, 0), "a history without an answer has no conversation yet"
        second, remembered = await ask(at, token, said("hello", answer, "and now?"))
        assert remembered == 0
        tool = {"role": "tool", "tool_call_id": "c1", "content": "42"}
        _, looped = await ask(at, token, [*said("hello", answer, "and now?", second), tool, tool, tool])
        assert looped == 0, "results of tools follow the newest answer"
        for _ in range(2):
            _, unknown = await ask(at, token, said("hello", "something else", "what?"))
            assert unknown == 1
        _, named = await ask(at, token, said("hi"), **{"x-circadia-conversation": "desk"})
        _, known = await ask(at, token, said("hi"), **{"x-circadia-conversation": "desk"})
        assert (named, known) == (1, 0)
        session = {"x-claude-code-session-id": "s1"}
        _, begun = await ask(at, token, said("hey"), **session)
        _, unknown = await ask(at, token, said("ho", "what?", "nothing"), **session)
        _, known = await ask(at, token, said("hey", "something else", "and now?"), **session)
        assert (begun, unknown, known) == (0, 1, 0), "a client's name costs no more"


async def test_a_conversation_goes_on_after_a_restart_by_one_look_up(tmp_path: Path, sections: dict[str, Any]) -> None:
    async with MockUpstream(key=KEY) as provider:
        async with live(tmp_path, **sections, provider=provider) as at:
            token = await at.agent()
            answer, _ = await ask(at, token, said("hello"))
        async with live(tmp_path, **sections, provider=provider) as at:
            _, looked_up = await ask(at, token, said("hello", answer, "and now?"))
            assert looked_up == 1
            assert [line["calls"] for line in await at.usage("conversation")] == [2]
