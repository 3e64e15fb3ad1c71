"""An agent with several banks in order: its turns go to the first, and its context comes from all."""

import re
from pathlib import Path
from typing import Any

import pytest

from circadia.memory.context import estimate_tokens
from circadia.testing.upstream import MockUpstream
from tests.gateway.bound_agent import CHAT, MESSAGES, RESPONSES, BoundAgentServer, bound, chat, fenced, token_of
from tests.gateway.tool_loops import FACTS, QUESTIONS, Conversation, assert_prefixes, breaks, sent
from tests.interaction.live import KEY, live
from tests.recording.statement_recorder import SentStatement, recorded

pytestmark = [pytest.mark.spec("MEM-35"), pytest.mark.usefixtures("unhurried")]

LAYERS = ["me-{user}", "project", "team"]
ANN = {"x-circadia-user": "ann"}


async def remember(at: Any, bank: str, *texts: str) -> None:
    for text in texts:
        status, told = await at.rest("POST", f"/banks/{bank}/episodes", {"text": text, "speaker": "lead"})
        assert status == 201, told


async def pin(at: Any, bank: str, label: str, value: str) -> None:
    status, told = await at.rest("PUT", f"/banks/{bank}/blocks/{label}", {"value": value, "pinned": True})
    assert status == 200, told


async def learn_in_layers(ann: BoundAgentServer) -> None:
    """Give each bank one of the facts, and a block of the same label."""
    ann.at.upstream.next(text="I see.")
    await ann.say(chat(FACTS[0]), headers=ANN)
    for bank, fact in zip(("project", "team"), FACTS[1:], strict=True):
        await remember(ann.at, bank, fact)
    for bank in ("me-ann", "project", "team"):
        await pin(ann.at, bank, "rules", f"Rule of {bank}.")
    ann.at.upstream.requests.clear()


def system(body: Any) -> str:
    return str(body["messages"][0]["content"])


@pytest.mark.setting("defaults.banks")
async def test_context_comes_from_all_banks_under_their_names_and_turns_go_to_the_first(tmp_path: Path) -> None:
    async with bound(tmp_path, bank=None, banks=LAYERS) as ann:
        await learn_in_layers(ann)
        ann.at.upstream.next(text="I see.")
        question = "Tell me of tea near Porto, the boat Nora in Riga and the piano of my aunt"
        await ann.say(chat(question), headers=ANN)
        fitting, stable = fenced(ann.sent), system(ann.sent)
        texts = [[text for _, text in await ann.texts(bank)] for bank in ("me-ann", "project", "team")]
    names = [f"## From the bank {name}:\n" for name in LAYERS]
    places = [fitting.index(part) for pair in zip(names, FACTS, strict=True) for part in pair]
    assert places == sorted(places)
    assert stable.index("## From the bank me-{user}:\n## rules\nRule of me-ann.") < stable.index(
        "## From the bank project:\n## rules\nRule of project.\n## From the bank team:\n## rules\nRule of team."
    )
    assert texts == [[FACTS[0], question], *([fact] for fact in FACTS[1:])]


async def test_without_a_known_user_nothing_is_stored_and_a_template_gives_nothing(tmp_path: Path) -> None:
    async with bound(tmp_path, bank=None, banks=LAYERS, others={"many": {"banks": LAYERS, "multi_user": True}}) as ann:
        await learn_in_layers(ann)
        question = chat("Tell me of tea near Porto, the boat Nora in Riga and the piano of my aunt")
        await ann.say(question)
        assert [fact in fenced(ann.sent) for fact in FACTS] == [False, True, True]
        await ann.say(question, token=token_of("many"))
        assert ann.sent["messages"] == question["messages"]
        await ann.say(question, headers={"x-circadia-user": "bob"})
        assert [fact in fenced(ann.sent) for fact in FACTS] == [False, True, True]
        await ann.at.server.exchanges.flush()
        banks = {each["name"]: each["episodes"] for each in (await ann.at.rest("GET", "/banks"))[1]["banks"]}
    assert banks == {"me-ann": 1, "me-bob": 2, "project": 1, "team": 1}


async def test_a_bank_that_is_gone_or_another_users_is_left_out_and_named_once(tmp_path: Path) -> None:
    async with bound(tmp_path, bank=None, banks=LAYERS, others={"eve": {"bank": "te{user}"}}) as ann:
        await learn_in_layers(ann)
        for bank in ("project", "team"):
            assert (await ann.at.rest("DELETE", f"/banks/{bank}"))[0] == 204
        await ann.say(chat("The secret of Em is a boat"), token=token_of("eve"), headers={"x-circadia-user": "am"})
        assert {each["name"] for each in (await ann.at.rest("GET", "/banks"))[1]["banks"]} == {"me-ann", "team"}
        conversation = Conversation(ann, CHAT)
        conversation.headers = ANN
        for question in ("Who grows tea near Porto, and what of a boat?", "And who else?"):
            await conversation.turn(question, 1)
        calls = sent(ann)[1:]
    assert_prefixes(calls)
    assert str(calls[0]).count("closed to you: project, team.") == 1
    assert str(calls[-1]).count("closed to you") == 1
    assert "secret of Em" not in str(calls)
    assert FACTS[0] in str(calls[0])


@pytest.mark.parametrize("path", [CHAT, RESPONSES, MESSAGES])
async def test_each_call_begins_as_the_one_before_over_tool_loops_turns_and_restarts(tmp_path: Path, path: str) -> None:
    calls: list[list[Any]] = []
    items: list[dict[str, Any]] = []
    async with MockUpstream(key=KEY) as provider:
        for place, question in enumerate(QUESTIONS):
            async with bound(tmp_path, bank=None, banks=LAYERS, sections={"provider": provider}) as ann:
                if not place:
                    await learn_in_layers(ann)
                conversation = Conversation(ann, path)
                conversation.headers, conversation.items, conversation.number = ANN, items, 10 * place
                if place:  # within the loop of the turn before
                    await conversation.end("It was nothing.")
                conversation.ask(question)
                await conversation.work("nothing")
                await conversation.work("nothing")
                calls = sent(ann)
                counts = await breaks(ann)
                assert counts == {}
    assert len(calls) == 8
    assert_prefixes(calls)
    for fact in FACTS:
        assert str(calls[-1]).count(fact) == 1


async def test_what_is_forgotten_in_any_bank_goes_at_once_and_what_is_superseded_is_corrected(tmp_path: Path) -> None:
    async with bound(tmp_path, bank=None, banks=LAYERS) as ann:
        await learn_in_layers(ann)
        conversation = Conversation(ann, CHAT)
        conversation.headers = ANN
        conversation.ask("Tell me of tea near Porto, the boat Nora in Riga and the piano of my aunt")
        await conversation.work("nothing")
        (boat,), (piano,) = await ann.episodes("project"), await ann.episodes("team")
        assert (await ann.at.rest("POST", "/banks/project/forget", {"ids": [boat.id]}))[0] == 200
        stale = {"evidence": "hand", "reason": "sold"}
        assert (await ann.at.rest("POST", f"/banks/team/episodes/{piano.id}/stale", stale))[0] == 200
        await conversation.end("nothing")
        conversation.ask("And the piano of my aunt?")
        await conversation.work("nothing")
        last = str(sent(ann)[-1])
        counts = await breaks(ann)
    assert FACTS[1] not in last
    assert re.search(r"## From the bank team:\\n- No longer valid: [^\n]*piano of my aunt", last)
    assert counts.keys() == {"forgotten"}


async def test_each_bank_has_a_share_of_the_room_and_what_one_leaves_goes_to_the_others(tmp_path: Path) -> None:
    async with bound(tmp_path, bank=None, banks=["mine", "project", "team"], fitting_tokens=1_000) as ann:
        for bank, count in (("mine", 30), ("project", 30), ("team", 1)):
            texts = (f"The kayak number {n} of {bank} lies at pier {n}, locker {n}" for n in range(count))
            await remember(ann.at, bank, *texts)
        await ann.say(chat("Where does which kayak lie?"))
        text = fenced(ann.sent)
    lines = {bank: text.count(f"of {bank} lies") for bank in ("mine", "project", "team")}
    assert lines["team"] == 1
    assert abs(lines["mine"] - lines["project"]) <= 1
    assert estimate_tokens(text) <= 1_000
    assert estimate_tokens(text) > 900


@pytest.fixture(params=["sqlite", "postgres"])
def sections(request: pytest.FixtureRequest) -> dict[str, Any]:
    """The configuration of a server on each database."""
    url = request.getfixturevalue("postgres_url") if request.param == "postgres" else None
    return {"memory": {"embedder": {"kind": "none"}}, **({} if url is None else {"server": {"database_url": url}})}


async def test_three_banks_take_one_round_of_look_ups(tmp_path: Path, sections: dict[str, Any]) -> None:
    banks = {"one": ["team"], "three": ["mine", "project", "team"]}
    counts: dict[str, list[int]] = {}
    async with live(tmp_path, **sections) as at:
        for name, names in banks.items():
            token = await at.agent(name, banks=names, capture=False)
            for bank in names:
                await remember(at, bank, f"A fact of {bank} about a boat")
            for number in range(4):
                reads: list[SentStatement] = []
                with recorded(lambda statement, reads=reads: reads.append(statement) if is_memory(statement) else None):
                    await at.called(token, {**chat(f"What of boat {number}?"), "model": "mock-1"})
                counts.setdefault(name, []).append(len(reads))
            assert str(at.upstream.requests[-1].json()).count("about a boat") == len(names)
    assert min(counts["one"]) == min(counts["three"]) == 1, "a call that meets news of a bank reads them, too"


def is_memory(statement: SentStatement) -> bool:
    return any(f"FROM {table}" in statement.text for table in ("banks", "blocks", "episodes", "notes", "evidence"))
