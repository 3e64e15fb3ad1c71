"""Memory as the official SDKs see it: what was told them is there in a new process, on both databases."""

from pathlib import Path
from typing import Any

import pytest

from circadia.memory.context import HEAD
from tests.clients.model_clients import ModelClient, model_clients
from tests.interaction.live import Live, live

TOKEN = "circadia-agent-of-the-tests-0123456789"
CLIENTS = [each for each in model_clients() if not each.node]
FACTS = {
    each.name: f"My {thing} is called {name}."
    for each, thing, name in zip(
        CLIENTS,
        ("boat", "fish", "parrot", "tractor", "sister", "village", "cottage", "piano", "camel", "robot", "kite", "oak"),
        ("Nora", "Wanda", "Polly", "Fred", "Olga", "Lund", "Elm", "Clara", "Humphrey", "Marvin", "Blue", "Ygg"),
        strict=True,
    )
}  # fmt: skip


@pytest.fixture(params=["sqlite", "postgres"])
def server(request: pytest.FixtureRequest) -> dict[str, Any]:
    """The section `server` of a database."""
    return {} if request.param == "sqlite" else {"database_url": request.getfixturevalue("postgres_url")}


def question(client: ModelClient) -> str:
    return FACTS[client.name].split(" is ")[0].replace("My", "What is the name of my") + "?"


async def episodes(at: Live) -> list[dict[str, Any]]:
    await at.server.exchanges.flush()
    status, page = await at.rest("GET", "/banks/memory/episodes")
    assert status == 200, page
    return page["episodes"]


@pytest.mark.spec("MEM-12", "MEM-13", "MEM-14", "MEM-15")
async def test_what_was_told_to_any_sdk_is_answered_from_the_context_in_a_new_process(
    tmp_path: Path, server: dict[str, Any]
) -> None:
    sections: dict[str, Any] = {
        "server": server,
        "agents": {"ann": {"token_env": "ANN", "bank": "memory"}},
        "environment": {"ANN": TOKEN},
    }
    async with live(tmp_path, **sections) as at:
        for client in CLIENTS:
            at.upstream.next(text=f"I note: {FACTS[client.name]}")
            assert await client.say(at.url, TOKEN, FACTS[client.name]) == f"I note: {FACTS[client.name]}"
        kept = await episodes(at)
    assert [(each["speaker"], each["trust"], each["text"]) for each in kept] == [
        said
        for fact in FACTS.values()
        for said in (("user", "person", fact), ("ann", "agent", f"I note: {fact}"))
    ]  # fmt: skip
    assert not any(each["incomplete"] for each in kept)
    async with live(tmp_path, **sections) as at:
        for client in CLIENTS:
            # The mock's model says the last user turn, so that its answer can only be what the context tells it.
            answer = await client.say(at.url, TOKEN, question(client))
            assert answer.startswith(question(client)), client.name
            assert answer.removeprefix(question(client)).lstrip().startswith("<circadia-memory "), client.name
            assert HEAD in answer
            assert f"user (person): {FACTS[client.name]}" in answer, client.name
        kept = (await episodes(at))[len(kept) :]
    assert [each["text"] for each in kept] == [question(each) for each in CLIENTS for _ in range(2)], "without context"
