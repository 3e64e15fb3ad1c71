"""A question that nobody has asked yet goes to the provider as the scope's own call, bounded, and under its own key."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import orjson
import pytest

from circadia.answers.question_drafts import AnticipatedAnswer, QuestionDraft
from circadia.gateway.answers.drafting import GatewayAnswerDrafter
from circadia.gateway.dialects.frames import VolatileSpans
from circadia.ids import AgentId
from circadia.llm.chat_model import ModelAnswerError
from circadia.memory.banks import NewBank
from circadia.memory.episodes import NewEpisode
from circadia.records.answer import AnswerFrame, AnswerScope
from circadia.records.bank import Trust
from circadia.testing.clock import START
from tests.sleeptime.answers_stand import HOME, Hall, sent

MAX_TOKENS = 4_000

pytestmark = pytest.mark.spec("ANS-01")


def frame(hall: Hall, dialect: str, call: Mapping[str, Any], *headers: tuple[str, str]) -> AnswerFrame:
    """Return the frame of a call."""
    codec = hall.provider.dialects[dialect].answer_codec
    assert codec is not None
    framed = codec.frame_call(dict(call), VolatileSpans())
    assert framed is not None
    targets = {"chat_completions": "/v1/chat/completions", "responses": "/v1/responses", "messages": "/v1/messages"}
    return AnswerFrame(
        bank_id=hall.bank.id, scope=AnswerScope(agent_id=AgentId("agt_guide"), frame=framed.digest), upstream="mock",
        target=targets[dialect], dialect=dialect, model="mock-1", body=framed.body, headers=headers, at=START,
    )  # fmt: skip


async def drafted(hall: Hall, where: AnswerFrame) -> QuestionDraft:
    """Return the question of where Ann lives in a frame."""
    ahead = GatewayAnswerDrafter(hall.clock, hall.store, hall.memory, hall.lookup, {"mock": hall.provider})
    draft = await ahead.draft_question(hall.bank, where, HOME)
    assert draft is not None
    return draft


SAID = [{"role": "user", "content": "Hi!"}]
CHAT = {"model": "mock-1", "messages": SAID}
RESPONSE = {"model": "mock-1", "input": SAID, "store": True, "stream": True}
MESSAGE = {"model": "mock-1", "messages": SAID, "system": "Be short."}


@pytest.mark.parametrize(
    ("dialect", "call", "said"),
    [
        ("chat_completions", CHAT, {"max_tokens": MAX_TOKENS}),
        ("chat_completions", {**CHAT, "max_completion_tokens": 50}, {"max_completion_tokens": 50}),
        ("chat_completions", {**CHAT, "max_completion_tokens": 10**6}, {"max_completion_tokens": MAX_TOKENS}),
        ("chat_completions", {**CHAT, "n": 3, "stream": True}, {"n": None, "stream": None}),
        ("responses", RESPONSE, {"max_output_tokens": MAX_TOKENS, "store": False, "stream": None}),
        ("messages", {**MESSAGE, "max_tokens": 300}, {"max_tokens": 300}),
        ("messages", {**MESSAGE, "max_tokens": 64_000}, {"max_tokens": MAX_TOKENS}),
        (
            "messages",
            {**MESSAGE, "max_tokens": 64_000, "thinking": {"type": "enabled", "budget_tokens": 2_000}},
            {"max_tokens": MAX_TOKENS + 2_000},
        ),
    ],
)
async def test_each_api_is_asked_for_one_bounded_whole_answer_with_the_banks_context(
    one: Hall, dialect: str, call: Mapping[str, Any], said: Mapping[str, Any]
) -> None:
    draft = await drafted(one, frame(one, dialect, call))
    body = orjson.loads(draft.prompt.data)
    assert {name: body.get(name) for name in said} == said
    assert draft.most_tokens == next((each for name, each in said.items() if name.startswith("max")), MAX_TOKENS)
    assert HOME in draft.prompt.data
    assert "Ann lives in Porto." in draft.prompt.data
    assert tuple(draft.basis.shown) == ("ann",)


async def test_it_goes_out_under_the_providers_key_with_what_changes_an_answer(one: Hall) -> None:
    where = frame(one, "messages", {**MESSAGE, "max_tokens": 300}, ("anthropic-beta", "new-thing"))
    draft = await drafted(one, where)
    answer, used = await draft.model.ask(draft.prompt, AnticipatedAnswer, most_tokens=draft.most_tokens)
    (request,) = one.up.requests
    assert (request.method, request.path, request.header("anthropic-beta")) == ("POST", "/v1/messages", "new-thing")
    assert (answer.text, answer.called, answer.cut, answer.at) == ("She lives in Porto.", False, False, START)
    assert answer.tokens == (used.input_tokens or 0) + (used.output_tokens or 0) > 0
    assert draft.prompt.data.encode() == request.body
    assert "sk-mock" not in f"{draft}{answer}"


async def test_where_an_agent_is_given_nothing_the_answer_rests_on_nothing_shown(one: Hall) -> None:
    await one.agent("guide", inject=False)
    draft = await drafted(one, frame(one, "chat_completions", CHAT))
    assert orjson.loads(draft.prompt.data)["messages"] == [{"role": "user", "content": HOME}]
    assert not draft.basis.shown
    assert sent(one.up) == []


@pytest.mark.spec("SLEEP-13")
@pytest.mark.parametrize(
    ("script", "passing", "free", "pause"),
    [
        ({"status": 500}, True, False, None),
        ({"status": 429, "headers": {"retry-after": "7"}}, True, True, 7.0),
        ({"status": 401}, True, True, None),
        ({"status": 400}, False, True, None),
        ({"reset": True}, True, False, None),
        ({"garbage": True}, True, False, None),
        ({"body": '{"choices": []}'}, True, False, None),
        ({"body": "data: x\n\n", "headers": {"content-type": "text/event-stream"}}, True, False, None),
    ],
)
async def test_what_a_provider_does_wrong_is_told_as_passes_know_it(
    one: Hall, script: Mapping[str, Any], passing: bool, free: bool, pause: float | None
) -> None:
    draft = await drafted(one, frame(one, "chat_completions", CHAT))
    one.up.next(**script)
    with pytest.raises(ModelAnswerError) as found:
        await draft.model.ask(draft.prompt, AnticipatedAnswer, most_tokens=9)
    error = found.value
    assert (error.passing, error.used is not None, error.retry_after_seconds) == (passing, free, pause)
    assert HOME not in error.cause
    assert len(one.up.requests) == 1, "sent once: passes count each try"


@pytest.mark.parametrize("changed", [{"body": "{"}, {"body": ""}, {"dialect": "plain"}, {"target": "/v1/files"}])
async def test_a_frame_that_cannot_be_used_any_more_is_passed_over(one: Hall, changed: Mapping[str, Any]) -> None:
    where = replace(frame(one, "chat_completions", CHAT), **changed)
    ahead = GatewayAnswerDrafter(one.clock, one.store, one.memory, one.lookup, {"mock": one.provider})
    assert await ahead.draft_question(one.bank, where, HOME) is None
    assert (
        await GatewayAnswerDrafter(one.clock, one.store, one.memory, one.lookup, {}).draft_question(
            one.bank, where, HOME
        )
        is None
    )


@pytest.mark.spec("MEM-35")
async def test_it_rests_on_the_agents_first_bank_and_on_the_state_of_the_others(one: Hall) -> None:
    others = [NewBank(name=name) for name in ("project", "team")]
    async with one.store.begin_write() as tx:
        made = [await one.memory.banks.create(tx, each, by="operator") for each in others]
        await one.memory.episodes.remember(tx, made[1], NewEpisode(text=HOME, speaker="tim", trust=Trust.PERSON))
    guide = await one.agent("guide", bank="ann", banks=("ann", "project", "gone", "team"))
    call = replace(frame(one, "chat_completions", CHAT), scope=AnswerScope(agent_id=guide.id, frame="f"))
    first = (await drafted(one, call)).basis.layers
    assert first.keys() == {each.id for each in made}
    async with one.store.begin_write() as tx:
        await one.memory.episodes.remember(tx, made[0], NewEpisode(text="News", speaker="pia", trust=Trust.PERSON))
    draft = await drafted(one, call)
    assert {each.id for each in made if draft.basis.layers[each.id] != first[each.id]} == {made[0].id}
    assert draft.prompt.data.count(HOME) == 1, "it shows nothing of the other banks"
