"""Model calls one by one (UI-17): a whole server, a provider, and what an operator reads afterwards."""

import asyncio
import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from circadia.ids import CallId
from circadia.records.call import CallText
from circadia.stores.sqlite import open_sqlite
from tests.fixtures.database_file import put_database
from tests.gateway.bound_agent import CHAT as PATH
from tests.gateway.bound_agent import MESSAGES, RESPONSES, asking, bound
from tests.gateway.readied import OTHER, question, readied
from tests.interaction.live import CHAT, Live, live

pytestmark = pytest.mark.spec("UI-17")


async def list_calls(at: Live, query: str = "") -> list[dict[str, Any]]:
    await at.server.journal.flush()
    status, page = await at.rest("GET", f"/calls?{query}")
    assert status == 200, page
    return page["calls"]


async def show(at: Live, call: str) -> dict[str, Any]:
    status, detail = await at.rest("GET", f"/calls/{call}")
    assert status == 200, detail
    return detail


@pytest.mark.parametrize(
    ("path", "reason"), [(PATH, "stop"), (RESPONSES, "completed"), (MESSAGES, "end_turn")], ids=["chat", "resp", "msg"]
)
@pytest.mark.parametrize("stream", [False, True])
async def test_a_call_is_listed_with_its_figures_and_why_its_model_stopped(
    tmp_path: Path, path: str, reason: str, stream: bool
) -> None:
    async with live(tmp_path) as at:
        token = await at.agent()
        upstream = "anthropic" if path == MESSAGES else "openai"
        async with at.call(token, path, asking(path, "hello", stream=stream), upstream=upstream) as response:
            await response.read()
        (call,) = await list_calls(at, "agent=ann&session=default")
        assert (call["status"], call["stop_reason"], call["retries"]) == ("done", reason, 0)
        assert (call["reference"], call["upstream"], call["streamed"]) == ("ann", upstream, stream)
        assert call["total_seconds"] >= call["first_token_seconds"] > 0
        detail = await show(at, call["id"])
        assert {name: detail[name] for name in call} == call
        assert (detail["memory"], detail["request"], detail["texts_are_kept"]) == ([], None, False)


async def test_a_call_that_was_sent_again_says_how_often(tmp_path: Path) -> None:
    async with live(tmp_path, upstream={"retries": 2}) as at:
        token = await at.agent()
        at.upstream.next(status=503, body=b"{}")
        at.upstream.next(status=503, body=b"{}")
        await at.called(token, CHAT)
        (call,) = await list_calls(at)
        assert (call["retries"], call["status"]) == (2, "done")


async def test_a_held_call_is_shown_as_the_others_are_until_it_goes_on(tmp_path: Path) -> None:
    async with live(tmp_path) as at:
        token = await at.agent()
        await at.sleeping(True)
        going = asyncio.create_task(at.called(token, CHAT))
        (hold,) = await at.held(1)
        (held,) = await list_calls(at, "status=held&agent=ann")
        assert (held["id"], held["status"], held["model"], held["upstream"]) == (
            hold["id"], "held", "gpt-4o-mini", "openai",
        )  # fmt: skip
        assert (held["input_tokens"], held["cost_usd"], held["turn"]) == (None, None, True)
        detail = await show(at, hold["id"])
        assert (detail["status"], detail["reference"], detail["memory"]) == ("held", "ann", [])
        assert (await at.rest("GET", "/calls?status=held&model=x"))[0] == 422
        await at.sleeping(False)
        await going
        (call,) = await list_calls(at)
        assert call["held_seconds"] > 0
        later = await show(at, hold["id"])
        assert (later["id"], later["status"]) == (call["id"], "done"), "the hold leads to the call that it became"
        assert (await at.rest("GET", "/calls/hold_of_nobody"))[0] == 404


async def test_each_held_call_leads_to_its_own_call_under_a_budget_too(tmp_path: Path) -> None:
    async with live(tmp_path) as at:
        token = await at.agent(max_calls_per_day=100)
        await at.sleeping(True)
        bodies = [{**CHAT, "user": f"user-{number}", "max_tokens": 5 + number} for number in range(4)]
        going = [asyncio.create_task(at.called(token, body)) for body in bodies]
        holds = {hold["id"] for hold in await at.held(4)}
        await at.sleeping(False)
        await asyncio.gather(*going)
        calls = {call["id"] for call in await list_calls(at)}
        assert {(await show(at, hold))["id"] for hold in holds} == calls
        assert len(calls) == 4


async def test_a_call_names_the_memory_that_it_has_shown_by_id(tmp_path: Path) -> None:
    async with bound(tmp_path) as ann:
        await ann.make(block="Ann likes tea.")
        await ann.say({"model": "m", "messages": [{"role": "user", "content": "My dog Rex likes salmon."}]})
        await ann.say({"model": "m", "messages": [{"role": "user", "content": "What does my dog Rex like?"}]})
        calls = await list_calls(ann.at)
        memory = (await show(ann.at, calls[0]["id"]))["memory"]
        episode = next(each for each in await ann.episodes() if each.text.startswith("My dog Rex"))
        assert {"bank": "memory", "kind": "block", "id": "likes", "version": 1} in memory
        assert {"bank": "memory", "kind": "episode", "id": episode.id, "version": None} in memory
        assert all(row["bank"] == "memory" for row in memory)
        async with ann.store.begin_write() as tx:
            await tx.episodes.remove([episode.id])
        again = (await show(ann.at, calls[0]["id"]))["memory"]
        assert [row["id"] for row in again if row["kind"] == "episode"].count(None) == 1


async def test_a_call_answered_ahead_names_its_ready_answer(tmp_path: Path) -> None:
    async with readied(tmp_path) as ann:
        made = await ann.put(await ann.frame(question(OTHER)))
        await ann.ask(question())
        (call,) = await list_calls(ann.at, "tier=ready")
        assert (call["lookup"], call["answer"], call["cost_usd"]) == ("hit", made.id, 0.0)


SECRET = "sk-" + "abcdefghij" * 4


@pytest.mark.setting("calls.keep_texts", calls={"keep_texts": True})
@pytest.mark.parametrize("stream", [False, True])
async def test_where_settings_keep_them_a_call_has_its_request_and_answer_without_secrets(
    tmp_path: Path, stream: bool
) -> None:
    async with live(tmp_path, calls={"keep_texts": True}) as at:
        token = await at.agent()
        at.upstream.next(text=f"Your key is {SECRET}, keep it.")
        body = {**CHAT, "stream": stream, "messages": [{"role": "user", "content": f"My key is {SECRET}, my name Ada"}]}
        await at.called(token, body)
        (call,) = await list_calls(at)
        await at.server.texts.flush()
        detail = await show(at, call["id"])
        assert "my name Ada" in detail["request"]
        assert detail["response"].startswith("Your key is ")
        assert SECRET not in detail["request"] + detail["response"]
        assert detail["texts_are_kept"]
        at.upstream.next(status=400, body=b'{"error": {"message": "no such tool"}}')
        await at.called(token, body)
        await at.server.texts.flush()
        failed = await show(at, (await list_calls(at))[0]["id"])
        assert (failed["status"], failed["http_status"]) == ("failed", 400)
        assert "no such tool" in failed["response"]


@pytest.mark.setting("calls.max_text_bytes", calls={"keep_texts": True, "max_text_bytes": 100})
async def test_texts_are_cut_to_their_bound_and_no_secret_is_cut_in_two(tmp_path: Path) -> None:
    async with live(tmp_path, calls={"keep_texts": True, "max_text_bytes": 100}) as at:
        token = await at.agent()
        said = "x" * 40 + " " + SECRET + " " + "z" * 20_000
        at.upstream.next(text="ä" * 40 + " " + SECRET + " " + "z" * 20_000)
        await at.called(token, {"messages": [{"role": "user", "content": said}], "model": "m"})
        (call,) = await list_calls(at)
        await at.server.texts.flush()
        detail = await show(at, call["id"])
        assert "x" * 40 + " " in detail["request"]
        assert detail["response"].startswith("ä" * 40 + " ")
        assert len(detail["request"].encode()) <= 100
        assert len(detail["response"].encode()) <= 100
        assert "sk-abc" not in detail["request"] + detail["response"]


@pytest.mark.setting("calls.text_days", calls={"text_days": 3})
async def test_texts_are_deleted_after_their_days(tmp_path: Path) -> None:
    now, store = datetime.now(UTC), await open_sqlite(put_database(tmp_path))
    texts = [
        CallText(id=CallId(f"call_{days}"), at=now - timedelta(days=days), request="hello", response="hi")
        for days in (1, 2, 5, 6)
    ]
    async with store.begin_write() as tx:
        await tx.calls.keep_texts(texts)
    await store.close()
    async with live(tmp_path, calls={"text_days": 3}), asyncio.timeout(30):
        with closing(sqlite3.connect(tmp_path / "circadia.db", timeout=60)) as database:
            while [row[0] for row in database.execute("SELECT id FROM call_texts ORDER BY at")] != ["call_2", "call_1"]:
                await asyncio.sleep(0.05)


async def test_texts_are_kept_nowhere_by_default(tmp_path: Path) -> None:
    async with live(tmp_path) as at:
        await at.called(await at.agent(), {**CHAT, "messages": [{"role": "user", "content": "a very rare wordling"}]})
        (call,) = await list_calls(at)
        await at.server.texts.flush()
        assert (await show(at, call["id"]))["request"] is None
    stored = b"".join(path.read_bytes() for path in tmp_path.rglob("*.db*"))
    assert b"wordling" not in stored


@pytest.mark.spec("UI-22")
async def test_the_configuration_in_force_hides_what_may_be_a_secret(tmp_path: Path) -> None:
    mcp = {"tools": {"command": ["true"], "env": {"TOKEN": "a-secret-word"}}}
    fleet = {"alert_webhook_url": "https://user:pass-word@hooks.example/T0000000/B00000000/abcdef0123456789abcd?key=k"}
    async with live(tmp_path, mcp_servers=mcp, fleet=fleet) as at:
        _, shown = await at.rest("GET", "/config")
        settings = {setting["key"]: setting for setting in shown["settings"]}
        assert settings["mcp_servers.tools.env.TOKEN"]["value"] == "(hidden)"
        assert settings["mcp_servers.tools.command"]["source"] == "file"
        text = str(shown)
        for secret in ("a-secret-word", "pass-word", "abcdef0123456789abcd", "key=k", "sk-key-of-the-provider"):
            assert secret not in text
