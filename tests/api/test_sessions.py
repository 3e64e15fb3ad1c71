"""Sessions over REST."""

from collections.abc import Mapping

import pytest

from tests.api.service import Service

SPECIALIST = {"sleep_events": ["agent_started"], "wake_events": ["added_to_any_thread"]}


async def test_a_session_is_made_with_its_whole_graph(service: Service) -> None:
    graph = {
        "name": "release-7",
        "agents": [{"name": "lead"}, {"name": "writer", **SPECIALIST}, {"name": "reviewer", **SPECIALIST}],
        "threads": [{"name": "notes", "participants": ["lead", "writer"]}, {"name": "empty"}],
    }
    made = await service.ok("POST", "/sessions", graph)
    assert (made["name"], made["status"], made["warnings"]) == ("release-7", "open", [])
    assert [(agent["name"], agent["sleeping"]) for agent in made["agents"]] == [
        ("lead", False), ("writer", False), ("reviewer", True),
    ]  # fmt: skip
    assert [(thread["name"], thread["participants"]) for thread in made["threads"]] == [
        ("notes", ["lead", "writer"]), ("empty", []),
    ]  # fmt: skip
    token = made["agents"][1]["token"]
    shown = await service.ok("GET", "/sessions/release-7", token=token)
    assert [agent["name"] for agent in shown["agents"]] == ["lead", "reviewer", "writer"]
    assert await service.ok("GET", f"/sessions/{made['id']}") == await service.ok("GET", "/sessions/release-7")


async def test_a_session_needs_no_name(service: Service) -> None:
    made = await service.ok("POST", "/sessions", {})
    assert made["name"]
    listed = (await service.ok("GET", "/sessions"))["sessions"]
    assert [session["name"] for session in listed] == ["default", made["name"]]


@pytest.mark.parametrize(
    "graph",
    [
        {"name": "team", "agents": [{"name": "ann"}, {"name": "ann"}]},
        {"name": "team", "agents": [{"name": "ann"}], "threads": [{"name": "t", "participants": ["bob"]}]},
        {"name": "team", "agents": [{"name": "ann"}], "threads": [{"name": " "}]},
        {"name": "team", "agents": [{"name": "ann"}], "sleepers": {"all_but": ["bob"]}},
        {"name": "team", "agents": [{"name": "ann"}, {"name": "Bob"}]},
    ],
)
async def test_a_graph_with_a_mistake_makes_nothing(service: Service, graph: dict[str, object]) -> None:
    before = await service.events()
    assert (await service.call("POST", "/sessions", graph)).status in (404, 409, 422)
    assert [session["name"] for session in (await service.ok("GET", "/sessions"))["sessions"]] == ["default"]
    assert await service.events() == before


@pytest.mark.spec("GATE-06")
@pytest.mark.parametrize("preset", [{"all_but": ["lead"]}, "all-but [lead]", "all-but lead", "all-but [ lead, ]"])
async def test_the_preset_puts_all_but_the_named_to_sleep_until_they_join_a_thread(
    service: Service, preset: object
) -> None:
    agents = [{"name": name} for name in ("lead", "ann", "bob")]
    await service.ok("POST", "/sessions", {"name": "team", "agents": agents, "sleepers": preset})
    assert [await service.asleep(name, session="team") for name in ("lead", "ann", "bob")] == [False, True, True]
    await service.ok("POST", "/sessions/team/threads", {"name": "t", "participants": ["ann"]})
    assert [await service.asleep(name, session="team") for name in ("lead", "ann", "bob")] == [False, False, True]


async def test_a_preset_that_is_none_is_refused(service: Service) -> None:
    for preset in ("all", "all-but lead; drop", {"but": ["lead"]}, 1, ["lead"]):
        body = {"agents": [{"name": "lead"}], "sleepers": preset}
        assert (await service.call("POST", "/sessions", body)).status == 422


@pytest.mark.spec("GATE-06")
async def test_a_dead_end_is_warned_of(service: Service) -> None:
    async def warnings(*agents: Mapping[str, object], threads: tuple[Mapping[str, object], ...] = ()) -> list[str]:
        return (await service.ok("POST", "/sessions", {"agents": list(agents), "threads": list(threads)}))["warnings"]

    awake = {"name": "lead"}
    no_wake = await warnings(awake, {"name": "ann", "sleep_events": ["last_thread_closed"], "wake_events": []})
    assert len(no_wake) == 1
    assert "'ann' can fall asleep but has no wake event" in no_wake[0]
    mentioned = {"name": "ann", "sleep_events": ["agent_started"], "wake_events": ["mentioned"]}
    lonely = await warnings(awake, mentioned)
    assert len(lonely) == 1
    assert "takes part in no thread" in lonely[0]
    assert await warnings(awake, mentioned, threads=({"name": "t", "participants": ["ann"]},)) == []
    assert "all agents start asleep" in (await warnings({"name": "ann", **SPECIALIST}))[0]


async def test_closing_a_session_closes_its_threads_and_its_tokens(service: Service) -> None:
    made = await service.ok("POST", "/sessions", {"name": "team", "agents": [{"name": "ann"}]})
    token = made["agents"][0]["token"]
    await service.ok("POST", "/sessions/team/threads", {"name": "t", "participants": ["ann"]})
    closed = await service.ok("DELETE", "/sessions/team")
    assert (closed["status"], closed["closed_at"] is None) == ("closed", False)
    assert (await service.call("GET", "/sessions/team", token=token)).status == 401
    threads = (await service.ok("GET", "/sessions/team/threads"))["threads"]
    assert [thread["status"] for thread in threads] == ["closed"]
    assert (await service.ok("GET", "/sessions/team"))["agents"] == []
    listed = (await service.ok("GET", "/sessions?closed=true"))["sessions"]
    assert [(each["name"], each["status"]) for each in listed] == [("default", "open"), ("team", "closed")]


async def test_what_is_closed_takes_nothing_more_and_its_name_is_free(service: Service) -> None:
    await service.ok("POST", "/sessions", {"name": "team", "threads": [{"name": "t"}]})
    await service.ok("DELETE", "/sessions/team")
    for method, path, body in (
        ("DELETE", "/sessions/team", None),
        ("POST", "/sessions/team/agents", {"name": "ann"}),
        ("POST", "/sessions/team/threads", {"name": "u"}),
        ("POST", "/sessions/team/threads/t/messages", {"content": "hello"}),
        ("PUT", "/sessions/team/sleeping", {"sleeping": True}),
    ):
        answer = await service.call(method, path, body)
        assert (answer.status, answer.code) == (409, "conflict"), path
    again = await service.ok("POST", "/sessions", {"name": "team"})
    assert (await service.ok("GET", "/sessions/team"))["id"] == again["id"]
    assert (await service.call("POST", "/sessions", {"name": "team"})).status == 409


async def test_the_session_default_never_ends(service: Service) -> None:
    answer = await service.call("DELETE", "/sessions/default")
    assert (answer.status, "never ends" in answer.body["detail"]) == (409, True)
