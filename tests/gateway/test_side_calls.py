"""What programs ask a model for themselves: not captured, told nothing, and counted with its reason."""

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from circadia.gateway.dialects.base import ModelRequest
from circadia.gateway.memory.conversations import SideCalls
from circadia.ids import AgentId
from circadia.testing.clock import ManualClock
from circadia.testing.upstream import MockUpstream
from tests.gateway.bound_agent import CHAT, MESSAGES, RESPONSES, asking, bound, chat, token_of
from tests.gateway.readied import OTHER, readied
from tests.interaction.live import live

pytestmark = pytest.mark.spec("GATE-97", "MEM-14", "MEM-18")

Body = dict[str, Any]
TOLD = "My dog is called Rex"
TITLE = (
    "Generate a concise, sentence-case title (3-7 words) that captures the main topic or goal of this coding session. "
    "The title should be clear enough that the user recognizes the session in a list."
)
FIELDS = {"type": "object", "properties": {"title": {"type": "string"}}, "required": ["title"]}
TOOL: Body = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}
USER_TEXT = "Please mend the red door of the barn"


def responses(instructions: str, *texts: str) -> Body:
    """Return a request of Codex, whose user turn has several items."""
    said = [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]} for text in texts]
    return {"model": "gpt-5", "instructions": instructions, "input": said, "store": False}


def messages(system: list[str], *said: object) -> Body:
    """Return a request of Claude Code; the model's messages come between the user's."""
    roles = ("user", "assistant")
    turns = [{"role": roles[place % 2], "content": text} for place, text in enumerate(said)]
    blocks = [{"type": "text", "text": text} for text in system]
    return {"model": "claude", "max_tokens": 9, "system": blocks, "messages": turns}


def chats(system: str, *said: str) -> Body:
    """Return a request of a chat with only user turns."""
    turns = [{"role": "user", "content": text} for text in said]
    return {"model": "m", "messages": [{"role": "system", "content": system}, *turns]}


CALLS: dict[str, tuple[str, str, Body]] = {
    "Claude Code": (
        "title",
        MESSAGES,
        messages(
            ["x-anthropic-billing-header: cc_version=2.1.197;", "You are a Claude agent.", TITLE],
            f"<session>\n{TOLD}\n</session>\n\nWrite the title in the language the user wrote in, regardless of the "
            "language of the examples above.",
        ),
    ),
    "Claude Code's memory": (
        "memory",
        MESSAGES,
        messages(
            ["You are Claude Code."], TOLD, "Noted.",
            [
                {"type": "text", "text": "<system-reminder>\nToday is Sunday.\n</system-reminder>"},
                {
                    "type": "text",
                    "text": "You are now acting as the memory extraction subagent. Analyze the most recent ~2 messages",
                },
            ],
        ),
    ),
    "Codex": (
        "summary",
        RESPONSES,
        responses("You are Codex.", f"You are performing a CONTEXT CHECKPOINT COMPACTION. Create a summary. {TOLD}"),
    ),
    "Codex's title": (
        "title",
        RESPONSES,
        responses("Generate a concise, single-line task title of at most 40 characters and under five words", TOLD),
    ),
    "opencode": (
        "title",
        CHAT,
        chats(
            "You are a title generator. You output ONLY a thread title. Nothing else.\n\n<task>",
            "Generate a title for this conversation:\n", TOLD,
        ),
    ),
    "Qwen Code": (
        "memory",
        CHAT,
        chats(
            "You are now acting as the managed memory extraction subagent for an AI coding assistant.\n\nThe recent",
            f"Managed memory has TWO directories. {TOLD}",
        ),
    ),
    "Gemini CLI": (
        "summary",
        CHAT,
        chats("You are the component that summarizes internal chat history into a given structure.", f"Door. {TOLD}"),
    ),
    "OpenClaw": (
        "heartbeat",
        CHAT,
        chats("You run in OpenClaw.", "[Fri 2026-11-20 09:00 GMT+1] Read HEARTBEAT.md if it exists (workspace"),
    ),
    "OpenClaw's boot": (
        "boot",
        CHAT,
        chats("You run in OpenClaw.", f"You are running a boot check. Follow BOOT.md instructions exactly.\n\n{TOLD}"),
    ),
    "Open WebUI": (
        "title",
        CHAT,
        chats(
            "", "### Task:\nGenerate a concise, 3-5 word title with an emoji summarizing the chat history.\n"
            f"<chat_history>\nUSER: {TOLD}\n</chat_history>",
        ),
    ),
    "LibreChat": (
        "title",
        CHAT,
        chats("", f"Provide a concise, 5-word-or-less title for the conversation, using its language.\nUser: {TOLD}"),
    ),
    "Copilot": (
        "title",
        CHAT,
        chats("You are an expert in crafting pithy titles for chatbot conversations. You are presented", TOLD),
    ),
    "Cline": (
        "summary",
        CHAT,
        chats(
            "You are Cline.", "<explicit_instructions type=\"summarize_task\">\nThe current conversation is rapidly "
            "running out of context. Now, your urgent task is to create a comprehensive detailed summary of the "
            f"conversation so far.\n</explicit_instructions>\n{TOLD}",
        ),
    ),
    "mem0": (
        "memory",
        CHAT,
        chats(
            "You are a Personal Information Organizer, specialized in accurately storing facts, user memories",
            f"Input:\n{TOLD}",
        ),
    ),
}  # fmt: skip


@pytest.mark.parametrize("program", CALLS)
async def test_a_programs_own_call_is_not_captured_goes_up_unchanged_and_is_counted_by_its_reason(
    tmp_path: Path, program: str
) -> None:
    why, path, body = CALLS[program]
    async with bound(tmp_path) as ann:
        await ann.say(asking(CHAT, f"{TOLD}, and he likes salmon", stream=False))
        before = await ann.texts()
        await ann.say(body, path=path)
        assert json.loads(ann.at.upstream.requests[-1].body) == body
        assert await ann.texts() == before
        bank = await ann.bank()
        assert bank is not None
        assert set(bank.skipped) == {why}


@pytest.mark.parametrize(
    ("system", "said"),
    [
        ("You extract facts from mails. Return JSON with the fields name and date.", "Ann moves to Porto on Friday."),
        ("You are a memory extraction assistant. Extract what the user says.", "I moved to Porto."),
        ("You write titles for articles.", "Generate a short title for this conversation about doors"),
        ("", "<session>\nWe mended the door\n</session>\n\nWrite the title of my talk about it"),
        ("", "<session>\nWir haben die Tür repariert\n</session>\n\nSchreib bitte einen Titel dafür"),
        ("", "What does Read HEARTBEAT.md if it exists mean?"),
        ("", "Our company uses HEARTBEAT_OK as its status"),
        ("", "Bitte fasse unser Gespräch zusammen"),
    ],
)
async def test_words_that_look_alike_and_an_agent_whose_work_is_extraction_are_kept(
    tmp_path: Path, system: str, said: str
) -> None:
    async with bound(tmp_path) as ann:
        await ann.say(chats(system, said) if system else chat(said))
        assert ("user", said) in await ann.texts()
        bank = await ann.bank()
    assert bank is not None
    assert bank.skipped == {}


async def test_a_heartbeat_with_the_work_it_starts_is_nobodys_word_and_the_next_person_is_heard(tmp_path: Path) -> None:
    async with bound(tmp_path) as ann:
        at = ann.at.upstream
        at.next(text="Good that he likes it")
        history = chat(TOLD)["messages"]
        await ann.say({"model": "m", "messages": history})
        beat = {"role": "user", "content": "[OpenClaw heartbeat poll]"}
        call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
        history += [{"role": "assistant", "content": "Good that he likes it"}, beat]
        await ann.say({"model": "m", "messages": history})
        history += [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": "the mail of Bob"},
        ]
        at.next(text="I have read the mail of Bob")
        await ann.say({"model": "m", "messages": history})
        history += [{"role": "assistant", "content": "I have read the mail of Bob"}]
        history += [{"role": "user", "content": "And my cat is called Tom"}]
        at.next(text="NO_REPLY")
        await ann.say({"model": "m", "messages": history})
        assert await ann.texts() == [
            ("user", TOLD), ("ann", "Good that he likes it"), ("user", "And my cat is called Tom"),
        ]  # fmt: skip
        bank = await ann.bank()
    assert bank is not None
    assert bank.skipped == {"heartbeat": 4, "silence": 1}


@pytest.mark.parametrize("bank", ["memory", None])
async def test_a_programs_own_call_that_was_held_takes_no_wake_notice(tmp_path: Path, bank: str | None) -> None:
    _, path, body = CALLS["Claude Code"]
    person = messages(["You are Claude Code."], "Mend the door")
    async with live(tmp_path) as at:
        token = await at.agent(bank=bank)
        await at.sleeping(True)

        async def say(sent: Body) -> None:
            async with at.call(token, path, sent, upstream="anthropic") as response:
                assert response.status == 200
                await response.read()

        async with asyncio.TaskGroup() as group:
            for sent in (body, person):
                group.create_task(say(sent))
            await at.held(2)
            await at.sleeping(False)
        sent = {request.json()["system"][0]["text"]: request.json() for request in at.upstream.requests}
    assert sent.pop("x-anthropic-billing-header: cc_version=2.1.197;") == body
    (noticed,) = sent.values()
    assert "<circadia-notice>" in json.dumps(noticed["messages"])


def side(path: str, text: str, *, fields: int = 1, tools: bool = False) -> Body:
    """Return a request without a mark, whose answer fits a schema."""
    schema = {"type": "object", "properties": {f"f{number}": {"type": "string"} for number in range(fields)}}
    body = asking(path, text, stream=False)
    if path == RESPONSES:
        body["text"] = {"format": {"type": "json_schema", "name": "t", "schema": schema}}
    elif path == MESSAGES:
        body["output_config"] = {"format": {"type": "json_schema", "schema": schema}}
    else:
        body["response_format"] = {"type": "json_schema", "json_schema": {"name": "t", "schema": schema}}
    return {**body, "tools": [TOOL]} if tools else body


WRAPPED = f"Benenne dieses Gespräch: <<{USER_TEXT}>>"


@pytest.mark.parametrize("path", [CHAT, RESPONSES, MESSAGES])
async def test_a_call_beside_a_persons_is_recognised_by_its_form_alone(tmp_path: Path, path: str) -> None:
    async with bound(tmp_path) as ann:
        await ann.say({**asking(path, USER_TEXT, stream=False), "tools": [TOOL]}, path=path)
        before = await ann.texts()
        body = side(path, WRAPPED)
        await ann.say(body, path=path)
        assert ann.sent == body
        assert await ann.texts() == before
        bank = await ann.bank()
    assert bank is not None
    assert bank.skipped == {"form": 2}


async def test_a_call_beside_a_persons_is_recognised_where_codex_offers_its_tools_in_an_item(tmp_path: Path) -> None:
    offered: Body = {"type": "additional_tools", "id": "at_1", "role": "developer", "tools": [TOOL]}
    main = responses("You are Codex.", USER_TEXT)
    del main["instructions"]
    lead = {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "You are Codex."}]}
    async with bound(tmp_path) as ann:
        await ann.say({**main, "input": [offered, lead, *main["input"]]}, path=RESPONSES)
        await ann.say(side(RESPONSES, WRAPPED), path=RESPONSES)
        title = {**lead, "content": [{"type": "input_text", "text": CALLS["Codex's title"][2]["instructions"]}]}
        await ann.say({**main, "input": [offered, title, *main["input"]]}, path=RESPONSES)
        bank = await ann.bank()
    assert bank is not None
    assert bank.skipped == {"form": 2, "title": 2}


async def test_a_call_beside_a_persons_is_recognised_on_geminis_own_paths(tmp_path: Path) -> None:
    schema = {"type": "OBJECT", "properties": {"title": {"type": "STRING"}}}
    path = "/v1beta/models/gemini-3.8-flash:generateContent"

    def asked(text: str, **more: object) -> Body:
        return {"contents": [{"role": "user", "parts": [{"text": text}]}], **more}

    answer = {"candidates": [{"content": {"role": "model", "parts": [{"text": "A door"}]}, "finishReason": "STOP"}]}
    async with bound(tmp_path, sections={"upstream": {"api": "gemini"}}) as ann:
        ann.at.upstream.next(times=3, status=200, body=answer)
        calls = (
            asked(USER_TEXT, tools=[{"functionDeclarations": [{"name": "look"}]}]),
            asked(WRAPPED, generationConfig={"responseMimeType": "application/json", "responseJsonSchema": schema}),
            asked(WRAPPED, generation_config={"response_schema": schema}),
        )
        for body in calls:
            await ann.say(body, path=path)
        bank = await ann.bank()
    assert bank is not None
    assert bank.skipped == {"form": 4}


async def test_a_call_beside_a_persons_that_comes_first_is_not_captured_either(tmp_path: Path) -> None:
    held = asyncio.Event()
    async with bound(tmp_path) as ann:
        ann.at.upstream.next(text="A door", delay=held)
        first = asyncio.create_task(ann.say(side(CHAT, WRAPPED)))
        await _arrived(ann.at.upstream, 1)
        await ann.say({**asking(CHAT, USER_TEXT, stream=False), "tools": [TOOL]})
        held.set()
        await first
        assert WRAPPED not in [text for _, text in await ann.texts()]
        assert ("user", USER_TEXT) in await ann.texts()


async def _arrived(upstream: MockUpstream, count: int) -> None:
    async with asyncio.timeout(30):
        while len(upstream.requests) < count:
            await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    ("main", "beside"),
    [
        ({"tools": []}, side(CHAT, WRAPPED)),
        ({"tools": [TOOL]}, side(CHAT, WRAPPED, fields=3)),
        ({"tools": [TOOL]}, side(CHAT, WRAPPED, tools=True)),
        ({"tools": [TOOL]}, asking(CHAT, WRAPPED, stream=False)),
        ({"tools": [TOOL]}, side(CHAT, "Benenne dieses Gespräch: eine rote Tür")),
        ({"tools": [TOOL]}, side(CHAT, USER_TEXT)),
        ({"tools": [TOOL]}, side(CHAT, f"Is it {USER_TEXT}yard")),
    ],
)
async def test_a_call_that_lacks_one_part_of_that_form_is_a_persons(
    tmp_path: Path, main: Mapping[str, object], beside: Body
) -> None:
    async with bound(tmp_path) as ann:
        await ann.say({**asking(CHAT, USER_TEXT, stream=False), **main})
        ann.at.upstream.next(text="That is another answer.")
        await ann.say(beside)
        bank = await ann.bank()
        said = beside["messages"][0]["content"]
        assert ("user", said) in await ann.texts()
    assert bank is not None
    assert bank.skipped == {}


async def test_a_programs_own_call_gets_no_ready_answer(tmp_path: Path) -> None:
    asked = "[OpenClaw heartbeat poll]"
    async with readied(tmp_path) as ann:
        await ann.put(await ann.frame(chat(OTHER)), asked)
        got = await ann.ask(chat(asked))
        assert (got.outcome, got.answer_id) == (None, None)
        assert ann.sent == chat(asked)


async def test_the_form_counts_for_one_agent(tmp_path: Path) -> None:
    others = {"bob": {"bank": "memory"}}
    async with bound(tmp_path, others=others) as ann:
        await ann.say({**asking(CHAT, USER_TEXT, stream=False), "tools": [TOOL]})
        await ann.say(side(CHAT, WRAPPED), token=token_of("bob"))
        assert ("user", WRAPPED) in await ann.texts()


def test_the_form_counts_for_a_minute() -> None:
    clock = ManualClock()
    calls = SideCalls(clock)
    agent, beside = AgentId("agt_1"), ModelRequest(model="m", schema_fields=1)
    calls.note(agent, ModelRequest(model="m", offers_tools=True), USER_TEXT)
    assert calls.is_beside(agent, beside, WRAPPED)
    clock.advance(61)
    assert not calls.is_beside(agent, beside, WRAPPED)
