"""Tokens that open nothing: what is said of them, and how many one address may try."""

from pathlib import Path

import pytest

from tests.interaction.live import CHAT, Live, live

pytestmark = pytest.mark.spec("GATE-07", "GATE-60")


async def tried(at: Live, token: str, count: int = 1) -> list[int]:
    """Return the statuses of so many calls with this token."""
    return [(await at.rest("GET", "/sessions", token=token))[0] for _ in range(count)]


@pytest.mark.setting("limits.max_failed_tokens_per_minute")
async def test_an_address_that_tries_too_many_gets_429_and_a_good_token_still_opens(tmp_path: Path) -> None:
    async with live(tmp_path, limits={"max_failed_tokens_per_minute": 3}) as at:
        token = await at.agent()
        assert await tried(at, "circadia-agent-guess", 5) == [401, 401, 401, 429, 429]
        for upstream, path in (("openai", "/v1/chat/completions"), ("anthropic", "/v1/messages")):
            async with at.call("sk-guess", path, upstream=upstream) as answer:
                assert answer.status == 429
                assert 0 < int(answer.headers["retry-after"]) <= 60
        async with at.tool("sk-guess", {"jsonrpc": "2.0", "id": 1, "method": "ping"}) as answer:
            assert answer.status == 429
        assert await tried(at, token) == [403], "it is known, and may not list sessions"
        assert (await at.answered(token))[0] == 200
        assert (await at.rest("GET", "/sessions"))[0] == 200
        async with at.http.get(f"{at.url}/metrics", headers={"authorization": f"Bearer {token}"}) as answer:
            assert answer.status == 403
        headers = {"authorization": "Bearer operator-token-of-the-tests"}
        async with at.http.get(f"{at.url}/metrics", headers=headers) as answer:
            assert "circadia_failed_tokens 8.0" in await answer.text()


async def test_by_default_60_a_minute_are_refused_as_what_they_are(tmp_path: Path) -> None:
    async with live(tmp_path) as at:
        assert set(await tried(at, "circadia-agent-guess", 60)) == {401}
        assert await tried(at, "circadia-agent-guess") == [429]
    async with live(tmp_path, limits={"max_failed_tokens_per_minute": None}) as at:
        assert set(await tried(at, "circadia-agent-guess", 100)) == {401}


@pytest.mark.parametrize(
    ("token", "foreign"), [("sk-proj-abc", True), ("sk-ant-api03-x", True), ("circadia-agent-x", False)]
)
async def test_a_providers_key_in_place_of_a_token_is_told_so(tmp_path: Path, token: str, foreign: bool) -> None:
    async with live(tmp_path) as at:
        async with at.call(token, body=CHAT) as answer:
            document = await answer.json()
    assert answer.status == 401
    message = document["error"]["message"]
    assert ("this is not a Circadia token" in message and "circadia agents token NAME" in message) is foreign
    assert token not in message
