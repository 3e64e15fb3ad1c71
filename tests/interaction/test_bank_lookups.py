"""How often a call asks the database for the bank of its end user, and that a look-up costs one step of an index."""

from pathlib import Path
from typing import Any

import pytest

from tests.interaction.live import CHAT, Live, live
from tests.recording.statement_recorder import SentStatement, recorded

pytestmark = pytest.mark.spec("LARGE-03", "MEM-12")


@pytest.fixture(params=["sqlite", "postgres"])
def sections(request: pytest.FixtureRequest) -> dict[str, Any]:
    """The configuration of a server on each database."""
    url = request.getfixturevalue("postgres_url") if request.param == "postgres" else None
    return {} if url is None else {"server": {"database_url": url}}


def is_look_up(statement: SentStatement) -> bool:
    """Return whether it finds a bank by what an agent is bound to, not by its id."""
    return "FROM banks" in statement.text and any(
        f"banks.{column} = " in statement.text for column in ("end_user", "name")
    )


async def count_look_ups(at: Live, token: str, text: str) -> tuple[int, int]:
    """Make a call of an end user; return how often its bank was looked up until the answer, and until all is stored."""
    sent: list[SentStatement] = []
    with recorded(lambda statement: sent.append(statement) if is_look_up(statement) else None):
        body = {**CHAT, "messages": [{"role": "user", "content": text}]}
        async with at.call(token, body=body, headers={"x-circadia-user": "ann"}) as response:
            assert response.status == 200
            await response.read()
        before = len(sent)
        await at.server.exchanges.flush()
    return before, len(sent)


@pytest.mark.parametrize("bank", ["team", "of-{user}"])
async def test_a_call_looks_its_bank_up_once_and_its_turn_is_stored_with_one_more(
    tmp_path: Path, sections: dict[str, Any], bank: str
) -> None:
    async with live(tmp_path, memory={"embedder": {"kind": "none"}}, **sections) as at:
        token = await at.agent(bank=bank, multi_user=True)
        await count_look_ups(at, token, "I live in Porto.")  # makes the bank
        await count_look_ups(at, token, "I have a cat.")  # loads its index
        counts = [await count_look_ups(at, token, f"And what about {number}?") for number in range(5)]
        assert max(counts) <= (2, 3), "the second time if the first look has found something new in the bank"
        assert min(counts) == (1, 2)
        assert {stored - before for before, stored in counts} == {1}
