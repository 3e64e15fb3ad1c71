"""Real programs' sessions, recorded in shape by `record_shapes`, get what the gateway promises."""

import json
import re
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import aiohttp
import pytest

from tests.clients.request_shapes import restore
from tests.clients.shape_provider import Answer, ShapeProvider, to_answer
from tests.gateway.bound_agent import BoundAgentServer, bound, chat
from tests.gateway.tool_loops import breaks
from tests.interaction.live import KEY, Live

Json = dict[str, Any]

SHAPES = Path(__file__).with_name("shapes")
CONVERSATIONS = {
    "codex": [4],
    "claude-code": [1, 4],
    "gemini": [1, 1, 4],
    "opencode": [1, 4],
    "qwen-code": [8],
    "aider": [1, 1, 1],
}
"""The calls of each conversation: the person's, and one for each title or choice of a model. Those of memories and of
suggestions go on with the person's. aider names none and rewrites its history in each call.
"""
PREFIXES = {"gemini": 2, "aider": 0}
"""How many calls for the person a program begins as the one before, the system side apart: three, but Gemini CLI drops
a signature between two questions.
"""
BREAKS = {"aider": {"lookup"}}
"""Why a prefix broke."""
SIGNS = {"codex": b'event: keepalive\ndata: {"type":"keepalive","sequence_number":0}\n\n', "gemini": b"\n"}
MARKS = {
    "claude-code": {
        "title": "Generate a concise, sentence-case title (3-7 words) that captures the main topic or goal of this "
        "coding session."
    },
    "opencode": {"title": "You are a title generator. You output ONLY a thread title."},
    "gemini": {"routing": "You are a specialized Task Routing AI."},
    "qwen-code": {
        "memory": "You are now acting as the managed memory extraction subagent for an AI coding assistant.",
        "suggestion": "[SUGGESTION MODE: Suggest what the user might naturally type next",
    },
    "aider": {
        "commit": "You are an expert software engineer that generates concise, one-line Git commit messages based on "
        "the provided diffs."
    },
}
"""The words by which a program's own call is recognised; the recording holds no word of a program."""
FACTS = ("The workbench in the harbour belongs to Nora", "The lantern of the file stands in Riga")
UPSTREAMS = {"/v1/messages": "anthropic", "/v1beta/": "gemini"}


@dataclass(frozen=True, kw_only=True)
class RecordedCall:
    path: str
    own: bool
    """Whether the program asks for itself."""
    headers: dict[str, str | None]
    body: Json
    answer: Answer

    @property
    def streamed(self) -> bool:
        return self.body.get("stream") is True or ":stream" in self.path

    async def play(self, at: Live, token: str) -> aiohttp.ClientResponse:
        """Send the call as the program does."""
        sent = {name: value for name, value in self.headers.items() if value is not None}
        (key,) = self.headers.keys() - sent.keys()
        sent[key] = f"Bearer {token}" if key == "authorization" else token
        upstream = next((name for path, name in UPSTREAMS.items() if self.path.startswith(path)), "openai")
        return await at.http.post(f"{at.url}/llm/{upstream}{self.path}", data=json.dumps(self.body), headers=sent)


@dataclass(frozen=True, kw_only=True)
class RecordedSession:
    questions: list[str]
    answers: list[str]
    calls: list[RecordedCall]


def load(program: str) -> RecordedSession:
    """Return a recorded session, with texts of ours in the places of the program's."""
    stored: Json = json.loads((SHAPES / f"{program}.json").read_text("utf-8"))
    requests: list[Json] = stored["requests"]
    for request in requests:
        for name, value in request["body"].items():
            if isinstance(value, dict) and "as_in" in value:
                request["body"][name] = requests[value["as_in"]]["body"][name]
    calls = [
        RecordedCall(
            path=each["path"],
            own=each["own"],
            headers=each["headers"],
            body=restore(each["body"], MARKS.get(program, {})),
            answer=to_answer(each["answer"]),
        )
        for each in requests
    ]
    return RecordedSession(questions=stored["questions"], answers=stored["answers"], calls=calls)


@asynccontextmanager
async def remembering(folder: Path, answers: Iterable[Answer]) -> AsyncGenerator[BoundAgentServer]:
    """Run a server whose bank knows a block and the facts, and whose provider then gives these answers."""
    given = iter(("I see.", "I see.", *answers))
    async with ShapeProvider(lambda _: next(given), key=KEY) as provider:
        base = {"base_url": provider.base_url, "key_env": "KEY"}
        upstreams = {api: {**base, "api": api} for api in ("openai", "anthropic", "gemini")}
        async with bound(folder, sections={"provider": provider, "upstreams": upstreams}) as ann:
            await ann.make(block="Ann likes tea.")
            for fact in FACTS:
                await ann.say(chat(fact))
            provider.requests.clear()
            provider.answers.clear()
            yield ann


def items_of(body: Json) -> list[Any]:
    """Return what a provider reads of a request, in order: a string is a text, and a mark for the cache is no part."""
    system = body.get("system") or body.get("systemInstruction") or body.get("instructions")
    return [_plain(system), *map(_plain, body.get("messages") or body.get("input") or body.get("contents") or [])]


def _plain(value: Any, key: str = "") -> Any:
    if isinstance(value, dict):
        parts = cast("Json", value)
        return {name: _plain(part, name) for name, part in parts.items() if name != "cache_control"}
    if isinstance(value, list):
        return [_plain(part) for part in cast("list[Any]", value)]
    return [{"type": "text", "text": value}] if key == "content" and isinstance(value, str) else value


def additions(items: list[Any]) -> set[str]:
    """Return what memory has added to a request."""
    return set(re.findall(r"<circadia-memory .*?</circadia-memory ", json.dumps(items)))


async def play_all(ann: BoundAgentServer, session: RecordedSession) -> list[Json]:
    """Play a session; return the bodies that went upstream."""
    for call in session.calls:
        async with await call.play(ann.at, ann.token) as response:
            answer = await response.read()
            assert response.status == 200, answer
            assert (response.content_type == "text/event-stream") == call.streamed
        await ann.at.server.exchanges.flush()
        await ann.at.server.journal.flush()
    return [seen.json() for seen in ann.at.upstream.requests]


@pytest.mark.spec("GATE-96", "GATE-97", "MEM-14", "MEM-37")
@pytest.mark.parametrize(("program", "conversations"), CONVERSATIONS.items())
async def test_a_real_session_is_one_conversation_that_is_kept_once_and_stays_a_prefix_of_itself(
    tmp_path: Path, program: str, conversations: list[int]
) -> None:
    session = load(program)
    async with remembering(tmp_path, [call.answer for call in session.calls]) as ann:
        bodies = await play_all(ann, session)
        assert sorted(line["calls"] for line in await ann.at.usage("conversation")) == sorted([1, 1, *conversations])
        said = [(each.speaker == "ann", each.text.strip('"').partition("\n")[0]) for each in await ann.episodes()]
        asked = [(False, FACTS[0]), (False, FACTS[1])]
        for question, answer in zip(session.questions, session.answers, strict=True):
            asked += [(False, question), (True, answer)]
        assert said == asked
        found = await breaks(ann)
    assert found.keys() == BREAKS.get(program, set())
    persons: list[tuple[list[Any], list[Any]]] = []
    """What the program sent and what went upstream, in the calls for the person."""
    for call, body in zip(session.calls, bodies, strict=True):
        sent, got = items_of(call.body), items_of(body)
        if call.own:
            assert additions(got) <= {each for _, upstream in persons for each in additions(upstream)}, "nothing new"
            assert additions(got) or body == call.body
        else:
            assert FACTS[session.questions[1] in str(sent)] in str(got)
            persons.append((sent, got))
    kept = [(was, now) for was, now in pairwise(persons) if now[0][1 : len(was[0])] == was[0][1:]]
    assert len(kept) == PREFIXES.get(program, 3)
    for (before, earlier), (after, later) in kept:
        assert later[1 : len(earlier)] == earlier[1:]
        assert (later[0] == earlier[0]) == (after[0] == before[0]), "the system side"


@pytest.mark.spec("GATE-50", "GATE-93")
@pytest.mark.parametrize("program", CONVERSATIONS)
async def test_a_held_call_of_a_real_program_gets_signs_that_it_counts_and_is_sent_once(
    tmp_path: Path, program: str
) -> None:
    call = next(call for call in load(program).calls if not call.own)
    async with remembering(tmp_path, [call.answer]) as ann:
        await ann.at.sleeping(True)
        async with await call.play(ann.at, ann.token) as response:
            sign = SIGNS.get(program, b": keep-alive\n\n")
            assert await response.content.readexactly(3 * len(sign)) == 3 * sign
            await ann.at.sleeping(False)
            assert len(await response.read()) > 100
        assert len(ann.at.upstream.requests) == 1
        kinds = [event["type"] for event in await ann.at.events("held", "admitted", "dropped")]
        assert kinds == ["held", "admitted"]
