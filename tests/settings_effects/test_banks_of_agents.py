"""What of an agent's turns is kept in which bank, and whom it reaches."""

from pathlib import Path
from typing import Any

import pytest

from tests.gateway.bound_agent import MESSAGES, bound, chat, token_of
from tests.interaction.live import CHAT, Live

QUIET: Any = {"when": "manual", "model": "none"}


async def kept(folder: Path, text: str, bank: dict[str, Any]) -> list[str]:
    """Return the texts that a bank with these settings keeps of a call and its answer."""
    sections: dict[str, Any] = {"banks": {"memory": bank}, "sleeptime": QUIET}
    async with bound(folder, inject=False, sections=sections) as ann:
        ann.at.upstream.next(text="ok")
        await ann.say(chat(text))
        return [said for _, said in await ann.texts()]


@pytest.mark.setting("banks.capture_mode", "banks.min_importance")
@pytest.mark.parametrize(
    ("bank", "text", "count"),
    [
        ({}, "thanks!", 0), ({"capture_mode": "all"}, "thanks!", 2), ({}, "My birthday is on 3 May", 1),
        ({"capture_mode": "explicit"}, "My birthday is on 3 May", 0),
        ({"min_importance": 0.9}, "The weather is fine", 0), ({}, "The weather is fine", 1),
    ],
)  # fmt: skip
async def test_a_bank_keeps_what_its_settings_say(tmp_path: Path, bank: dict[str, Any], text: str, count: int) -> None:
    assert len(await kept(tmp_path, text, bank)) >= count
    assert bool(count) is bool(await kept(tmp_path / "again", text, bank))


@pytest.mark.setting("banks.capture_tools")
@pytest.mark.parametrize("capture_tools", [True, False])
async def test_calls_of_tools_are_kept_where_the_bank_says_so(tmp_path: Path, capture_tools: bool) -> None:
    sections: dict[str, Any] = {"banks": {"memory": {"capture_tools": capture_tools}}, "sleeptime": QUIET}
    async with bound(tmp_path, inject=False, sections=sections) as ann:
        use = {"type": "tool_use", "id": "t1", "name": "look", "input": {"who": "Olga"}}
        ann.at.upstream.next(body={"type": "message", "content": [use]})
        asked = {"role": "user", "content": "Where does Olga live?"}
        await ann.say({"model": "m", "max_tokens": 9, "messages": [asked]}, path=MESSAGES)
        result = {"type": "tool_result", "tool_use_id": "t1", "content": "in Riga since May"}
        more = [{"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}]
        ann.at.upstream.next(text="She lives there.")
        await ann.say({"model": "m", "max_tokens": 9, "messages": [asked, *more]}, path=MESSAGES)
        assert ("in Riga since May" in [text for _, text in await ann.texts()]) is capture_tools


ANN = token_of("ann")


@pytest.mark.setting(
    "defaults.write_banks", "defaults.read_banks", "defaults.sessions",
    agents={"ann": {"token_env": "ANN", "write_banks": ["shared"], "read_banks": ["read"], "sessions": ["other"]}},
    banks={"shared": {}, "read": {}, "foreign": {}}, environment={"ANN": ANN}, sleeptime=QUIET,
)  # fmt: skip
async def test_an_agent_opens_the_banks_and_reaches_the_sessions_of_the_file(at: Live) -> None:
    wanted = {"shared": (200, 201), "read": (200, 403), "foreign": (403, 403)}
    for name, statuses in wanted.items():
        read = (await at.rest("GET", f"/banks/{name}/episodes", token=ANN))[0]
        written = (await at.rest("POST", f"/banks/{name}/episodes", {"text": "Tea is hot."}, token=ANN))[0]
        assert (read, written) == statuses, name
    for name in ("other", "third"):
        assert (await at.rest("POST", "/sessions", {"name": name, "agents": [{"name": "bob"}]}))[0] == 201
    sent = [
        (await at.rest("POST", "/messages", {"to": f"{name}:bob", "content": "hello"}, token=ANN))[0]
        for name in ("other", "third")
    ]
    assert sent[0] == 201
    assert sent[1] in (403, 404)


@pytest.mark.setting(
    "defaults.hold_silent_seconds", "defaults.hold_grace_seconds", "defaults.keep_alive_seconds",
    defaults={"hold_silent_seconds": 0.5, "hold_grace_seconds": 0.3, "keep_alive_seconds": 0.2},
)  # fmt: skip
@pytest.mark.parametrize(("streamed", "sign"), [(False, b"   "), (True, b": keep-alive\n\n: keep-alive\n\n")])
async def test_a_held_caller_hears_signs_of_life_after_its_silence_and_so_often(
    at: Live, streamed: bool, sign: bytes
) -> None:
    token = await at.agent()
    await at.sleeping(True)
    async with at.call(token, body={**CHAT, "stream": streamed}) as response:
        assert await response.content.readexactly(len(sign)) == sign
        await at.sleeping(False)
        await response.read()
