"""What the gateway does for programs that it knows by their headers."""

from pathlib import Path

import pytest

from tests.interaction.live import live


@pytest.mark.spec("GATE-50", "GATE-93")
@pytest.mark.parametrize(
    ("originator", "sign"),
    [
        ("codex_cli_rs", b'event: keepalive\ndata: {"type":"keepalive","sequence_number":0}\n\n'),
        ("opencode", b": keep-alive\n\n"),
        (None, b": keep-alive\n\n"),
    ],
)
async def test_codex_which_counts_events_gets_events_while_it_is_held_and_nobody_else_does(
    tmp_path: Path, originator: str | None, sign: bytes
) -> None:
    async with live(tmp_path) as at:
        token = await at.agent(on_wake="forward")
        await at.sleeping(True)
        body = {"model": "gpt-4o-mini", "input": "hello", "stream": True}
        headers = {} if originator is None else {"originator": originator}
        async with at.call(token, "/v1/responses", body, headers=headers) as response:
            assert [await response.content.readuntil(b"\n\n") for _ in range(2)] == [sign] * 2
            await at.sleeping(False)
            rest = await response.read()
        assert b"response.created" in rest
        assert b"response.completed" in rest
