"""Coding agents get hints and ready answers, although their requests differ from call to call (ANS-21)."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from circadia.gateway.dialects.anthropic_messages import MessagesAnswerCodec
from circadia.gateway.dialects.openai_responses import ResponsesAnswerCodec
from tests.clients.test_recorded_shapes import RecordedCall, load
from tests.gateway.readied import ASKED, SAID, CallResult, ReadyAnswerServer, readied

pytestmark = [pytest.mark.spec("ANS-21"), pytest.mark.usefixtures("unhurried")]

Json = dict[str, Any]
CODECS = {"claude-code": MessagesAnswerCodec(), "codex": ResponsesAnswerCodec(), "opencode": ResponsesAnswerCodec()}
WORDS = {"opencode": '"{}"'}
"""How a program writes what a person said, where it changes that."""


def session(program: str, call: RecordedCall, question: str, number: int) -> RecordedCall:
    """Return a recorded call as another session of the program makes it another day, with another question."""
    recorded = load(program).questions[0]

    def renew(text: str) -> str:
        text = re.sub(r"00000000-0000-4000-8000-0{9}(\d{3})", rf"0000000{number}-0000-4000-8000-000000000\1", text)
        return text.replace("ses_1", f"ses_{number}").replace(json.dumps(recorded)[1:-1], question)

    body: Json = json.loads(renew(json.dumps(call.body)))
    headers = {name: value and renew(value) for name, value in call.headers.items()}
    day = f"2026-11-1{number}"
    if program == "claude-code":
        mark = f"{number}a{number}f{number}"
        body["system"][0]["text"] = (
            f"x-anthropic-billing-header: cc_version=2.1.197.{mark[:3]}; cc_entrypoint=cli; cch={mark};"
        )
        body["system"][2]["text"] += f"\n# Environment\nToday's date: {day}\n"
        reminder = body["messages"][0]["content"][0]
        reminder["text"] = f"<system-reminder>\nToday's date is {day}.\n</system-reminder>\n\n"
    elif program == "codex":
        (environment,) = [item for item in body["input"] if "<environment_context>" in json.dumps(item)]
        environment["content"][0]["text"] = (
            f"<environment_context>\n<cwd>/work</cwd>\n<current_date>{day}</current_date>\n</environment_context>"
        )
    else:
        body["input"][0]["content"] += f"\nToday's date: Sat Nov 1{number} 2026"
    return RecordedCall(path=call.path, own=call.own, headers=headers, body=body, answer=call.answer)


async def ask(ann: ReadyAnswerServer, call: RecordedCall) -> CallResult:
    """Send a call as the program does."""
    async with await call.play(ann.at, ann.token) as response:
        told = response.headers
        got = CallResult(
            status=response.status, outcome=told.get("x-circadia-answer"), kind=response.content_type,
            answer_id=told.get("x-circadia-answer-id"), body=await response.read(),
        )  # fmt: skip
    await ann.at.server.exchanges.flush()
    await ann.at.server.answers.flush()
    return got


@pytest.mark.parametrize("program", CODECS)
async def test_a_program_gets_hints_and_ready_answers_in_other_sessions_on_other_days(
    tmp_path: Path, program: str
) -> None:
    recorded = load(program)
    person = next(call for call in recorded.calls if not call.own)
    chores = [call for call in recorded.calls if call.own]
    said = WORDS.get(program, "{}")
    async with readied(tmp_path) as ann:
        for call in chores:
            assert (await ask(ann, call)).outcome is None
        assert await frames(ann) == {}, "a chore makes no frame"
        for number, question in enumerate(("Which hut is the red one?", "Who keeps the oars?"), 1):
            assert (await ask(ann, session(program, person, question, number))).outcome == "miss"
        ((frame, is_open),) = (await frames(ann)).items()
        assert is_open
        bank = await ann.held()
        async with ann.store.begin_read() as tx:
            (recent,) = await tx.answer_frames.find_recent_scopes(bank.id)
            kept = await tx.answer_frames.get_frame(bank.id, recent.scope)
        assert kept is not None
        assert recent.scope.frame == frame
        made = await ann.put(kept, said.format(ASKED))
        served = session(program, person, ASKED, 3)
        got = await ask(ann, served)
        assert (got.status, got.outcome, got.answer_id) == (200, "hit", made.id)
        assert got.kind == "text/event-stream"
        assert "Green" in got.body.decode()
        policy = {"policy": {"answer_mode": "hint"}}
        assert (await ann.at.rest("PATCH", "/sessions/default/agents/ann", policy))[0] == 200
        assert (await ask(ann, session(program, person, ASKED, 4))).outcome == "hint"
        assert SAID in json.dumps(ann.sent)
    ahead = json.loads(CODECS[program].build_question_body(kept.body, said.format(ASKED)))
    assert words(ahead, 2) == words(served.body, 3), "asked ahead as the program asks, in the place where it does"


def words(body: Mapping[str, Any], number: int) -> Any:
    """Return what is asked and around it, without the ids and the date of a session."""
    items = body.get("messages") or body["input"]
    text = json.dumps([{key: value for key, value in item.items() if key != "id"} for item in items])
    text = re.sub(rf"2026-11-1{number}|Nov 1{number}", "DATE", text)
    return json.loads(re.sub(rf"0000000{number}-0000", "SESSION", text).replace(f"ses_{number}", "ses"))


async def frames(ann: ReadyAnswerServer) -> dict[str, bool]:
    """Return the frames that are known, and whether questions are asked ahead in them."""
    bank = await ann.held()
    async with ann.store.begin_read() as tx:
        return {each.scope.frame: each.is_open for each in await tx.answer_frames.find_recent_scopes(bank.id)}
