"""All kinds of writing requests, each with random values."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Final

from tests.cluster.scene import SESSION_OF, Scene

Request = Callable[[Scene], Awaitable[object]]

WORDS: Final = ("Ann lives in Porto.", "The deadline is 3 May.", "Bob owns the parser.", "It rains.", "We ship today.")
THREADS: Final = ("red", "blue")
KEYS: Final = ("key 1", "key 2", "key 3")
LAUNCHERS: Final = ("fickle", "resident")
AGENTS_OF: Final = {"default": ("ann", "bob"), "team": ("cid",)}


def reference(name: str) -> str:
    return f"{SESSION_OF[name]}:{name}"


def agent_path(scene: Scene) -> str:
    name = scene.an_agent()
    return f"/sessions/{SESSION_OF[name]}/agents/{name}"


def thread_path(scene: Scene) -> str:
    thread = scene.choose(*THREADS, scene.an_id("thr"))
    return f"/sessions/{scene.choose('default', 'default', 'team')}/threads/{thread}"


def sender(scene: Scene) -> str | None:
    return scene.choose(None, *SESSION_OF)


# Agents and sessions


async def patch_agent(scene: Scene) -> None:
    change = scene.choose({"description": scene.choose(*WORDS)}, {"enabled": True}, {"policy": {"inject": True}})
    await scene.rest("patch agent", "PATCH", agent_path(scene), change)


async def disable_agent(scene: Scene) -> None:
    path = agent_path(scene)
    await scene.rest("disable agent", "PATCH", path, {"enabled": False})
    await scene.rest("enable agent", "PATCH", path, {"enabled": True})


async def rotate_token(scene: Scene) -> None:
    name = scene.an_agent()
    answer = await scene.rest("rotate token", "POST", f"/sessions/{SESSION_OF[name]}/agents/{name}/token")
    if answer is not None:
        scene.tokens[name] = answer["token"]


async def delete_agent(scene: Scene) -> None:
    await scene.rest("delete agent", "DELETE", agent_path(scene))


async def set_sleeping(scene: Scene) -> None:
    await scene.rest("sleep", "PUT", f"{agent_path(scene)}/sleeping", {"sleeping": scene.choose(True, False, False)})


async def set_many_sleeping(scene: Scene) -> None:
    session = scene.choose("default", "team")
    body = {"sleeping": scene.choose(True, False, False), "agents": scene.choose(None, list(AGENTS_OF[session]))}
    await scene.rest("sleep many", "PUT", f"/sessions/{session}/sleeping", body)


async def create_session(scene: Scene) -> None:
    banks = scene.random.sample(["more", "team", "extra"], 2)
    agents = [{"name": name, "policy": {"bank": bank}} for name, bank in zip(("dan", "eve"), banks, strict=True)]
    threads = [{"name": "red", "participants": ["dan", "default:ann"]}, {"name": "blue", "participants": ["eve"]}]
    body = {"name": scene.choose("team", "other"), "agents": agents, "threads": threads}
    await scene.rest("create session", "POST", "/sessions", body)


async def close_session(scene: Scene) -> None:
    await scene.rest("close session", "DELETE", f"/sessions/{scene.choose('team', 'other', 'other')}")


async def set_schedule(scene: Scene) -> None:
    routine = {"name": "watch", "instructions": "look", "every_seconds": 60, "misfire_grace_seconds": 1}
    await scene.rest(
        "schedule", "PUT", f"/agents/{reference(scene.an_agent())}/schedule",
        {"routines": scene.choose([routine], []), "blackouts": []},
    )  # fmt: skip


async def patch_coordination(scene: Scene) -> None:
    change = scene.choose({"launcher": scene.choose(*LAUNCHERS)}, {"prompt_tokens": 500}, {"heartbeat_minutes": 1})
    await scene.rest("coordination", "PATCH", f"/agents/{reference(scene.an_agent())}/coordination", change)


async def reset_coordination(scene: Scene) -> None:
    key = scene.choose("launcher", "prompt_tokens")
    await scene.rest("reset", "DELETE", f"/agents/{reference(scene.an_agent())}/coordination/{key}")


# Threads and messages


async def create_thread(scene: Scene) -> None:
    session = scene.choose("default", "team")
    body = {"name": scene.choose(*THREADS), "participants": [reference(name) for name in SESSION_OF]}
    await scene.rest("create thread", "POST", f"/sessions/{session}/threads", body, by=sender(scene))


async def add_participant(scene: Scene) -> None:
    body = {"agent": reference(scene.an_agent())}
    await scene.rest("add", "POST", f"{thread_path(scene)}/participants", body, by=sender(scene))


async def remove_participant(scene: Scene) -> None:
    path = f"{thread_path(scene)}/participants/{reference(scene.an_agent())}"
    await scene.rest("remove", "DELETE", path, by=sender(scene))


async def send_to_thread(scene: Scene) -> None:
    mentions = [reference(name) for name in scene.random.sample(list(SESSION_OF), scene.choose(0, 1, 2, 3))]
    body = {"content": scene.choose(*WORDS), "mentions": mentions}
    await scene.rest("send", "POST", f"{thread_path(scene)}/messages", body, by=sender(scene))


async def close_thread(scene: Scene) -> None:
    await scene.rest("close thread", "POST", f"{thread_path(scene)}/close", {"summary": "done"}, by=sender(scene))


async def send_direct(scene: Scene) -> None:
    priority, key = scene.choose("normal", "high", "urgent"), scene.choose(None, *KEYS)
    body = {"to": reference(scene.an_agent()), "content": scene.choose(*WORDS), "priority": priority, "key": key}
    if scene.choose(True, False, False):
        body |= {"reply_to": scene.an_id("msg")}
    await scene.rest("direct message", "POST", "/messages", body, by=sender(scene))


async def ack(scene: Scene) -> None:
    path = f"/agents/{reference(scene.an_agent())}/inbox"
    inbox = await scene.rest("inbox", "GET", f"{path}?limit=5")
    if inbox is None or not inbox["messages"]:
        return
    path = f"{path}/{scene.choose(*inbox['messages'])['id']}"
    await scene.rest("ack", "POST", f"{path}/ack")
    await scene.rest("snooze", "POST", f"{path}/snooze", {"seconds": 0.5})


async def read_inbox(scene: Scene) -> None:
    name = scene.an_agent()
    await scene.rest("inbox", "GET", f"/agents/{reference(name)}/inbox", by=name)


# Wakes and pulses


async def wake(scene: Scene) -> None:
    by, reason, key = sender(scene), scene.choose("blocker", "user_request"), scene.choose(None, None, *KEYS)
    message = scene.choose("up", None) if by is None else "up"
    body = {"to": reference(scene.an_agent()), "reason": reason, "message": message, "key": key}
    await scene.rest("wake", "POST", "/wakes", body, by=by)


async def send_ring(scene: Scene) -> None:
    """Have each agent wake the next one at the same time."""
    names = list(SESSION_OF)
    scene.random.shuffle(names)
    bodies = [{"to": reference(to), "reason": "blocker", "message": "up"} for to in (*names[1:], names[0])]
    await asyncio.gather(
        *(scene.rest("wake", "POST", "/wakes", body, by=by) for by, body in zip(names, bodies, strict=True))
    )


async def cancel_wake(scene: Scene) -> None:
    await scene.rest("cancel wake", "POST", f"/wakes/{scene.an_id('wak')}/cancel")


async def start_pulse(scene: Scene) -> None:
    await scene.rest("start pulse", "POST", f"/agents/{reference(scene.an_agent())}/pulses", {"reason": "now"})


async def cancel_pulse(scene: Scene) -> None:
    await scene.rest("cancel pulse", "POST", f"/pulses/{scene.an_id('pls')}/cancel")


async def end_pulse(scene: Scene) -> None:
    body = {"status": scene.choose("succeeded", "failed"), "detail": "said so"}
    await scene.rest("end pulse", "POST", f"/pulses/{scene.an_id('pls')}/end", body)


# Memory and passes


async def remember(scene: Scene) -> None:
    body = {"text": scene.choose(*WORDS), "speaker": scene.an_agent(), "key": scene.choose(None, *KEYS)}
    await scene.rest("remember", "POST", "/banks/team/episodes", body, by=sender(scene))


async def demote_episode(scene: Scene) -> None:
    page = await scene.rest("episodes", "GET", "/banks/team/episodes?limit=3")
    if page is not None and page["episodes"]:
        episode = scene.random.choice(page["episodes"])["id"]
        path = f"/banks/team/episodes/{episode}/stale"
        await scene.rest("demote", "POST", path, {"evidence": scene.an_id("epi"), "reason": "old"})
        await scene.rest("restore", "DELETE", f"{path}/{scene.an_id('epi')}")


async def forget(scene: Scene) -> None:
    body = scene.choose({"ids": [scene.an_id("epi")]}, {"speaker": scene.an_agent()}, {"conversation": "talk"})
    await scene.rest("forget", "POST", "/banks/team/forget", body)


async def write_block(scene: Scene) -> None:
    label = scene.choose("human", "plan")
    body = {"value": scene.choose(*WORDS), "why": "news"}
    await scene.rest("block", "PUT", f"/banks/team/blocks/{label}", body, by=sender(scene))


async def undo_block(scene: Scene) -> None:
    label = scene.choose("human", "plan")
    undo = scene.choose(True, True, False)
    method, tail = ("POST", "/undo") if undo else ("DELETE", "")
    await scene.rest("undo block", method, f"/banks/team/blocks/{label}{tail}")


async def restore_blocks(scene: Scene) -> None:
    at = (datetime.now(UTC) - timedelta(seconds=scene.choose(1, 3))).isoformat()
    await scene.rest("restore blocks", "POST", "/banks/team/restore", {"at": at})


async def change_bank(scene: Scene) -> None:
    change = scene.choose({"description": "of the team"}, {"policy": {"keep_days": 30}}, {"policy": {}})
    await scene.rest("bank", "PATCH", "/banks/team", change)


async def create_bank(scene: Scene) -> None:
    await scene.rest("create bank", "POST", "/banks", {"name": scene.choose("more", "team")})


async def delete_bank(scene: Scene) -> None:
    await scene.rest("delete bank", "DELETE", f"/banks/{scene.choose('more', 'extra')}")


async def request_pass(scene: Scene) -> None:
    body = {"review": scene.choose(True, False), "full": scene.choose(True, False)}
    await scene.rest("pass", "POST", "/banks/team/passes", body)


async def decide_pass(scene: Scene) -> None:
    what = scene.choose("cancel", "accept", "refuse", "undo", "undo")
    await scene.rest(f"{what} pass", "POST", f"/passes/{scene.an_id('pas')}/{what}")


async def pause_passes(scene: Scene) -> None:
    await scene.rest("pause", "POST", "/banks/team/sleeptime/pause")
    await scene.rest("resume", "POST", "/banks/team/sleeptime/resume")


async def copy_bank(scene: Scene) -> None:
    await scene.copy_bank("team", scene.choose("solo", "extra"))


async def drop_answers(scene: Scene) -> None:
    answer = scene.choose("", f"/{scene.an_id('ans')}")
    await scene.rest("drop answers", "DELETE", f"/banks/team/answers{answer}")


async def ask_model(scene: Scene) -> None:
    await scene.ask_model(scene.an_agent(), scene.choose(*WORDS), stream=scene.choose(True, False))


async def ask_model_together(scene: Scene) -> None:
    """Have all agents ask at once, so that the turns of several banks are kept in one block."""
    text = scene.choose(*WORDS)
    await asyncio.gather(*(scene.ask_model(name, text, stream=False) for name in SESSION_OF))


# Tools


async def call_thread_tool(scene: Scene) -> None:
    name, by, thread = scene.an_agent(), scene.an_agent(), scene.choose(*THREADS)
    match scene.choose("create", "add", "remove", "send", "send", "close"):
        case "create":
            await scene.tool("create_thread", by, name=thread, participants=[reference(name)])
        case "add":
            await scene.tool("add_participant", by, thread=thread, agent=reference(name))
        case "remove":
            await scene.tool("remove_participant", by, thread=thread, agent=reference(name))
        case "close":
            await scene.tool("close_thread", by, thread=thread)
        case _:
            await scene.tool("send_message", by, thread=thread, content="hello", mentions=[reference(name)])


async def call_inbox_tool(scene: Scene) -> None:
    by, to, message = scene.an_agent(), reference(scene.an_agent()), scene.an_id("msg")
    match scene.choose("message", "wake", "read", "ack", "snooze", "reply", "reply", "wait"):
        case "message":
            await scene.tool("message_agent", by, to=to, message="hello", priority=scene.choose("normal", "high"))
        case "wake":
            await scene.tool("wake_agent", by, to=to, message="help", reason="blocker")
        case "read":
            await scene.tool("read_inbox", by)
        case "ack":
            await scene.tool("ack", by, messages=[message])
        case "snooze":
            await scene.tool("snooze", by, messages=[message], seconds=1)
        case "wait":
            await scene.tool("wait_for_message", by, timeout_seconds=0.2)
        case _:
            await scene.tool("reply", by, message=message, content="yes", priority=scene.choose("normal", "high"))


async def call_sleep_tool(scene: Scene) -> None:
    by = scene.an_agent()
    if scene.choose(True, False, False):
        await scene.tool("sleep_self", by)
    else:
        await scene.tool("set_sleeping", by, agent=reference(scene.an_agent()), sleeping=scene.choose(True, False))


async def call_memory_tool(scene: Scene) -> None:
    by, label = scene.an_agent(), scene.choose("human", "plan")
    match scene.choose("remember", "insert", "replace", "rethink", "recall"):
        case "remember":
            await scene.tool("remember", by, text=scene.choose(*WORDS), key=scene.choose(None, *KEYS))
        case "insert":
            await scene.tool("memory_insert", by, label=label, text="one line")
        case "replace":
            await scene.tool("memory_replace", by, label=label, old="one line", new="another")
        case "rethink":
            await scene.tool("memory_rethink", by, label=label, value=scene.choose(*WORDS))
        case _:
            await scene.tool("recall", by, query="Where does Ann live?")


REQUESTS: Final[tuple[Request, ...]] = (
    patch_agent, disable_agent, rotate_token, delete_agent, set_sleeping, set_many_sleeping, create_session,
    close_session, set_schedule, patch_coordination, reset_coordination, create_thread, add_participant,
    remove_participant, send_to_thread, close_thread, send_direct, ack, read_inbox, wake, send_ring, cancel_wake,
    start_pulse, cancel_pulse, end_pulse, remember, demote_episode, forget, write_block, undo_block, restore_blocks,
    change_bank, create_bank, delete_bank, request_pass, decide_pass, pause_passes, copy_bank, drop_answers,
    ask_model, ask_model_together, call_thread_tool, call_inbox_tool, call_sleep_tool, call_memory_tool,
)  # fmt: skip
RARE: Final = frozenset({delete_agent, disable_agent, close_session, delete_bank, close_thread, create_thread})
"""Requests after which others fail for a while."""
