"""Passes over REST: who may ask, what is shown, what is refused, and what undo, accept, pause and resume do."""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from circadia.ids import AgentId, CallId, PassId
from circadia.records.bank import Bank
from circadia.records.call import Call, CallStatus
from circadia.records.sleep_call import SleepCall
from circadia.records.sleep_pass import Leftover, PassStatus
from tests.api.pass_steps import found, note, noted, sources, taken, worked
from tests.api.service import Service

Json = Any


@pytest.mark.spec("SLEEP-02", "SLEEP-60", "SLEEP-61")
async def test_a_pass_that_a_person_asks_for_waits_for_a_worker_and_tells_of_itself(
    service: Service, team: str
) -> None:
    answer = await service.call(
        "POST", "/banks/team/passes", {"instructions": "Keep the dates.", "operations": ["consolidate"]}
    )
    assert answer.status == 202
    run = answer.body
    assert (run["status"], run["trigger"], run["by"], run["bank"]) == ("pending", "hand", "operator", "team")
    assert (run["instructions"], run["operations"]) == ("Keep the dates.", ["consolidate"])
    assert run["upto"] > run["after"] == 0
    again = await service.call("POST", "/banks/team/passes")
    assert (again.status, again.code) == (409, "conflict")
    assert [each["id"] for each in (await service.ok("GET", "/banks/team/passes"))["passes"]] == [run["id"]]
    assert [each["data"]["status"] for each in await service.events("pass")] == ["pending"]


@pytest.mark.spec("SLEEP-02", "SLEEP-61")
async def test_a_pass_is_asked_for_as_needed_or_over_the_whole_bank(service: Service, team: str) -> None:
    run = await service.ok("POST", "/banks/team/passes", {"needed": True, "full": True, "operations": ["collect"]})
    assert (run["trigger"], run["full"], run["operations"]) == ("needed", True, ["collect"])
    await service.ok("POST", f"/passes/{run['id']}/cancel")
    plain = await service.ok("POST", "/banks/team/passes", {"needed": False})
    assert (plain["trigger"], plain["full"]) == ("hand", False)


@pytest.mark.spec("SLEEP-60")
async def test_the_record_of_a_pass_tells_its_calls_their_cost_and_what_was_wrong(service: Service, team: str) -> None:
    run = await service.ok("POST", "/banks/team/passes")
    by = Call(
        id=CallId("c1"), at=service.clock.now(), agent_id=AgentId(""), session="", agent="", tier="sleep",
        upstream="openai", endpoint="chat", model="small", status=CallStatus.DONE, input_tokens=100, output_tokens=20,
        cost_nanousd=2_000_000, total_seconds=1.5,
    )  # fmt: skip
    asked = SleepCall(
        id=CallId("c1"), pass_id=PassId(run["id"]), bank_id=(await bank_of(service, "team")).id,
        operation="consolidate", key="k", at=service.clock.now(),
    )  # fmt: skip
    async with service.parts.store.begin_write() as tx:
        failed = replace(by, id=CallId("c2"), status=CallStatus.FAILED, output_tokens=0, cost_nanousd=0)
        await tx.calls.add([by, failed])
        await tx.sleep_calls.add(asked)
        await tx.sleep_calls.add(replace(asked, id=CallId("c2"), key="l", error="the answer is no JSON"))
    shown = await service.ok("GET", f"/passes/{run['id']}")
    cost = {"calls": 2, "tokens": 220, "usd": 0.002, "seconds": 3.0, "thinking_tokens": 0, "thinking_usd": 0.0}
    assert shown["spent"] == cost
    assert shown["ledger"] == [{**cost, "operation": "consolidate", "model": "small", "failed": 1}]
    assert shown["errors"] == ["consolidate: the answer is no JSON"]
    assert (await service.ok("GET", "/banks/team/sleeptime"))["spent"] == cost
    assert (await service.ok("GET", "/sleeptime"))["spent"] == cost


async def bank_of(service: Service, name: str) -> Bank:
    async with service.parts.store.begin_read() as tx:
        bank = await tx.banks.get_by_name(name)
    assert bank is not None
    return bank


@pytest.mark.spec("SLEEP-32", "SLEEP-61")
async def test_a_pass_shows_what_it_changed_and_is_undone_in_one_call(service: Service, team: str) -> None:
    run = await noted(service, team)
    (change,) = (await service.ok("GET", f"/passes/{run}/changes"))["changes"]
    assert (change["pass"], change["kind"], change["target"], change["state"]) == (
        run,
        "add_note",
        "not_1",
        "published",
    )
    assert (change["before"], change["after"]["text"]) == (None, "Ann lives in Porto.")
    assert change["why"] == "they say the same"
    assert await found(service, team) == ["not_1"]
    undone = await service.ok("POST", f"/passes/{run}/undo")
    assert undone["pass"]["id"] == run
    assert [(each["state"], each["why"]) for each in undone["changes"]] == [("undone", "undone by operator")]
    assert await found(service, team) == []
    assert (await service.ok("POST", f"/passes/{run}/undo"))["changes"] == []
    states = f"/passes/{run}/changes?state="
    assert len((await service.ok("GET", f"{states}undone"))["changes"]) == 1
    assert (await service.ok("GET", f"{states}published"))["changes"] == []


@pytest.mark.spec("SLEEP-61")
async def test_changes_are_shown_page_by_page(service: Service, team: str) -> None:
    run = await service.ok("POST", f"/banks/{team}/passes")
    told = await sources(service, team)
    await worked(service, run["id"], *(note(service, f"not_{each}", told) for each in range(3)))
    page = await service.ok("GET", f"/passes/{run['id']}/changes?limit=2")
    assert ([each["number"] for each in page["changes"]], page["after"]) == ([1, 2], 2)
    rest = await service.ok("GET", f"/passes/{run['id']}/changes?limit=2&after=2")
    assert ([each["number"] for each in rest["changes"]], rest["after"]) == ([3], None)


@pytest.mark.spec("SLEEP-32")
async def test_with_review_nothing_is_in_the_bank_until_a_person_accepts(service: Service, team: str) -> None:
    run = await noted(service, team, {"review": True})
    assert (await service.ok("GET", f"/passes/{run}"))["counts"] == {"staged": 1}
    assert await found(service, team) == []
    accepted = await service.ok("POST", f"/passes/{run}/accept")
    assert [each["state"] for each in accepted["changes"]] == ["published"]
    assert await found(service, team) == ["not_1"]
    assert (await service.ok("POST", f"/passes/{run}/accept"))["changes"] == []


@pytest.mark.spec("SLEEP-32")
async def test_single_changes_are_accepted_or_refused_and_the_record_tells_it(service: Service, team: str) -> None:
    run = await service.ok("POST", f"/banks/{team}/passes", {"review": True})
    told = await sources(service, team)
    await worked(service, run["id"], *(note(service, f"not_{each}", told) for each in range(4)))
    wrong = await service.call("POST", f"/passes/{run['id']}/accept", {"numbers": [2, 9]})
    assert (wrong.status, await found(service, team)) == (404, []), "a number that does not wait accepts nothing"
    accepted = await service.ok("POST", f"/passes/{run['id']}/accept", {"numbers": [2]})
    assert ([each["number"] for each in accepted["changes"]], accepted["pass"]["counts"]["add_note"]) == ([2], 1)
    refused = await service.ok("POST", f"/passes/{run['id']}/refuse", {"numbers": [1]})
    assert [(each["state"], each["why"]) for each in refused["changes"]] == [("refused", "refused by operator")]
    assert (await service.call("POST", f"/passes/{run['id']}/accept", {"numbers": [1]})).status == 404
    assert (await service.call("POST", f"/passes/{run['id']}/accept", {"number": 3})).status == 422
    rest = await service.ok("POST", f"/passes/{run['id']}/refuse")
    assert rest["pass"]["counts"] == {"add_note": 1, "refused": 3}
    assert await found(service, team) == ["not_1"]


@pytest.mark.spec("SLEEP-02", "SLEEP-32")
async def test_a_dry_run_proposes_only_and_cannot_be_accepted(service: Service, team: str) -> None:
    run = await noted(service, team, {"dry_run": True})
    assert [each["state"] for each in (await service.ok("GET", f"/passes/{run}/changes"))["changes"]] == ["staged"]
    assert await found(service, team) == []
    assert (await service.ok("GET", "/banks/team/sleeptime"))["backlog"]["episodes"] == 2
    refused = await service.call("POST", f"/passes/{run}/accept")
    assert (refused.status, refused.code) == (409, "conflict")
    assert "dry run" in refused.body["detail"]


@pytest.mark.spec("SLEEP-61")
@pytest.mark.parametrize("act", ["undo", "accept"])
async def test_a_pass_that_runs_is_neither_undone_nor_accepted_but_can_be_cancelled(
    service: Service, team: str, act: str
) -> None:
    run = (await service.ok("POST", f"/banks/{team}/passes"))["id"]
    await taken(service, run)
    refused = await service.call("POST", f"/passes/{run}/{act}")
    assert (refused.status, refused.code) == (409, "conflict")
    assert "running" in refused.body["detail"]
    assert (await service.ok("POST", f"/passes/{run}/cancel"))["detail"] == "cancelled by operator"
    again = await service.call("POST", f"/passes/{run}/cancel")
    assert (again.status, again.code) == (409, "conflict")


@pytest.mark.spec("SLEEP-03", "SLEEP-61")
async def test_a_bank_tells_what_waits_and_why_no_pass_begins(service: Service, team: str) -> None:
    stand = await service.ok("GET", f"/banks/{team}/sleeptime")
    assert (stand["backlog"]["episodes"], stand["backlog"]["turns"]) == (2, 0)
    verdict = stand["verdict"]
    assert (verdict["due"], verdict["gate"]) == (False, "not_yet")
    assert "2 episodes wait" in verdict["why"]
    assert verdict["at"] == "2026-01-01T00:01:00Z"
    service.clock.advance(60)
    verdict = (await service.ok("GET", f"/banks/{team}/sleeptime"))["verdict"]
    assert (verdict["due"], verdict["trigger"], verdict["gate"]) == (True, "idle", None)


@pytest.mark.spec("SLEEP-61")
async def test_pause_and_resume_close_and_open_the_gate_and_what_was_set_apart_is_tried_again(
    service: Service, team: str
) -> None:
    bank = await bank_of(service, team)
    async with service.parts.store.begin_write() as tx:
        state = await tx.sleep_states.get(bank.id)
        left = Leftover(first=1, last=1, failures=3, cause="the answer is no JSON")
        await tx.sleep_states.put(replace(state, leftovers=(left,)))
    service.clock.advance(60)
    paused = await service.ok("POST", f"/banks/{team}/sleeptime/pause")
    assert (paused["paused_by"], paused["verdict"]["gate"]) == ("operator", "paused")
    assert [(each["quarantined"], each["cause"]) for each in paused["leftovers"]] == [(True, "the answer is no JSON")]
    resumed = await service.ok("POST", f"/banks/{team}/sleeptime/resume")
    assert (resumed["paused_by"], resumed["verdict"]["due"]) == (None, True)
    assert [each["quarantined"] for each in resumed["leftovers"]] == [False]


@pytest.mark.spec("SLEEP-60")
async def test_all_banks_with_work_are_shown_and_one_that_waits_for_too_long_is_red(
    service: Service, team: str
) -> None:
    await service.ok("POST", "/banks", {"name": "quiet"})
    stand = await service.ok("GET", "/sleeptime")
    assert ([each["bank"] for each in stand["banks"]], stand["red"], stand["more"]) == ([team], [], 0)
    service.clock.advance(3 * 3600)
    stand = await service.ok("GET", "/sleeptime")
    assert stand["lag_seconds"] == 3 * 3600
    assert stand["red"] == ["team: the oldest turn has waited for 180 minutes; passes begin after 60"]
    await service.ok("POST", f"/banks/{team}/passes")
    assert (await service.ok("GET", "/sleeptime"))["passes"]["pending"] == 1


@pytest.mark.spec("SLEEP-61")
async def test_a_note_tells_where_it_comes_from(service: Service, team: str) -> None:
    run = await noted(service, team)
    shown = await service.ok("GET", f"/banks/{team}/notes/not_1")
    assert (shown["text"], shown["pass"], shown["trust"]) == ("Ann lives in Porto.", run, "person")
    assert [each["text"] for each in shown["evidence"]] == ["Ann lives in Porto.", "Ann has moved to Porto."]
    assert [(each["pass"], each["state"]) for each in shown["changes"]] == [(run, "published")]
    assert (await service.call("GET", f"/banks/{team}/notes/not_2")).status == 404


@pytest.mark.spec("SLEEP-02")
async def test_a_call_that_waits_answers_when_the_pass_has_ended_or_its_time_is_over(
    service: Service, team: str
) -> None:
    asking = asyncio.create_task(service.ok("POST", f"/banks/{team}/passes", {"wait_seconds": 60}))
    passes: list[Json] = []
    while not passes:
        passes = (await service.ok("GET", f"/banks/{team}/passes"))["passes"]
    await worked(service, passes[0]["id"], status=PassStatus.NO_CHANGE)
    ended = await asyncio.wait_for(asking, 60)
    assert (ended["status"], ended["detail"]) == ("no_change", "it is done")
    waiting = asyncio.create_task(service.ok("POST", f"/banks/{team}/passes", {"wait_seconds": 5}))
    while not waiting.done():
        service.clock.advance(1)
        await asyncio.sleep(0.01)
    assert (await waiting)["status"] == "pending"


@pytest.mark.spec("SLEEP-61")
async def test_an_agent_sees_the_passes_over_its_own_bank_and_acts_on_none(service: Service, team: str) -> None:
    own = await service.agent("ann", policy={"bank": team})
    other = await service.agent("bob", policy={"bank": "other"})
    run = await noted(service, team)
    seen = (f"/passes/{run}", f"/passes/{run}/changes", f"/banks/{team}/passes", f"/banks/{team}/sleeptime")
    for path in (*seen, f"/banks/{team}/notes", f"/banks/{team}/notes/not_1"):
        assert (await service.call("GET", path, token=own)).status == 200, path
        assert (await service.call("GET", path, token=other)).status == 403, path
    acts = [f"/passes/{run}/{act}" for act in ("undo", "accept", "refuse", "cancel")]
    for path in (*acts, f"/banks/{team}/passes", *(f"/banks/{team}/sleeptime/{act}" for act in ("pause", "resume"))):
        for token in (own, other):
            assert (await service.call("POST", path, token=token)).status == 403, path
    assert (await service.call("GET", "/sleeptime", token=own)).status == 403
    assert await found(service, team) == ["not_1"]


@pytest.mark.spec("SLEEP-61")
async def test_a_template_and_its_user_mean_the_person_s_bank(service: Service) -> None:
    own = await service.agent("ann", policy={"bank": "t-{user}"})
    template = "/banks/t-%7Buser%7D"
    await service.ok("POST", f"{template}/episodes?user=eve", {"text": "Eve likes tea."}, token=own)
    run = await service.ok("POST", f"{template}/passes?user=eve")
    assert run["bank"] == "t-eve"
    assert (await service.ok("GET", f"{template}/sleeptime?user=eve", token=own))["running"]["id"] == run["id"]
    assert (await service.ok("GET", f"/passes/{run['id']}", token=own))["id"] == run["id"]
    assert (await service.call("POST", f"{template}/passes")).status == 422


@pytest.mark.spec("SLEEP-61")
@pytest.mark.parametrize(
    ("body", "word"),
    [
        ({"operations": ["dedupe", "refelct"]}, "precompute; did you mean 'reflect'?"),
        ({"operations": "consolidate"}, "operations"),
        ({"dryrun": True}, "did you mean 'dry_run'"),
        ({"dry_run": "yes"}, "dry_run"),
        ({"instructions": "x" * 10_001}, "instructions"),
        ({"instructions": "a\x00b"}, "not text"),
        ({"instructions": "\ud800"}, "instructions"),
        ({"wait_seconds": -1}, "wait_seconds"),
        ({"wait_seconds": 1e9}, "wait_seconds"),
    ],
)
async def test_a_bad_body_is_refused_and_begins_nothing(
    service: Service, team: str, body: Mapping[str, object], word: str
) -> None:
    answer = await service.call("POST", f"/banks/{team}/passes", body)
    assert answer.status == 422
    assert word in answer.body["detail"]
    assert (await service.ok("GET", f"/banks/{team}/passes"))["passes"] == []


@pytest.mark.spec("SLEEP-61")
async def test_five_megabytes_of_instructions_and_unknown_names_are_refused(service: Service, team: str) -> None:
    data = json.dumps({"instructions": "x" * 5_000_000}).encode()
    big = await service.call("POST", f"/banks/{team}/passes", data=data)
    assert (big.status, big.code) == (413, "too_large")
    for method, path in (
        ("POST", "/banks/nobody/passes"), ("GET", "/banks/nobody/passes"), ("GET", "/banks/nobody/sleeptime"),
        ("POST", "/banks/nobody/sleeptime/pause"), ("GET", "/passes/pas_0"), ("GET", "/passes/pas_0/changes"),
        ("POST", "/passes/pas_0/undo"), ("POST", "/passes/pas_0/accept"), ("POST", "/passes/pas_0/cancel"),
        ("POST", "/passes/pas_0/refuse"),
    ):  # fmt: skip
        answer = await service.call(method, path)
        assert (answer.status, answer.code) == (404, "not_found"), path
    await service.ok("POST", "/banks", {"name": "other"})
    run = await service.ok("POST", "/banks/other/passes")
    page = await service.call("GET", f"/banks/{team}/passes?before={run['id']}")
    assert page.status == 422
    assert "has no pass" in page.body["detail"]


@pytest.mark.spec("SLEEP-20", "SLEEP-61")
async def test_a_bank_states_its_own_passes_and_a_bad_key_is_named(service: Service, team: str) -> None:
    stated = {"frequency_turns": 9, "operations": {"reflect": {"enabled": False}}}
    changed = await service.ok("PATCH", f"/banks/{team}", {"policy": {"sleeptime": stated}})
    assert changed["policy"]["sleeptime"]["frequency_turns"] == 9
    more = {"sleeptime": {"review": True, "frequency_turns": None}}
    changed = await service.ok("PATCH", f"/banks/{team}", {"policy": more})
    assert set(changed["policy"]["sleeptime"]) == {"review", "operations"}
    policy = (await service.ok("GET", f"/banks/{team}/sleeptime"))["policy"]
    assert (policy["review"], policy["frequency_turns"], policy["operations"]["reflect"]["enabled"]) == (True, 5, False)
    assert (await service.ok("POST", f"/banks/{team}/passes"))["review"] is True
    off = await service.call("POST", f"/banks/{team}/passes", {"operations": ["reflect"]})
    assert "switched off" in off.body["detail"]
    mistakes: tuple[tuple[object, str], ...] = (
        ({"frequency_turn": 1}, "did you mean 'frequency_turns'"),
        ({"frequency_turn": None}, "did you mean 'frequency_turns'"),
        ({"budget": {"per_day": {"token": 1}}}, "did you mean 'tokens'"),
        ({"idle_seconds": 1e300}, "idle_seconds: Input should be less than"),
        ({"schedules": [{"cron": "nonsense"}]}, "cron"),
        ({"operations": {"dream": {}}}, "sleeptime: operations.dream: Input should be 'consolidate', "),
        ("often", "sleeptime"),
    )
    for bad, word in mistakes:
        answer = await service.call("PATCH", f"/banks/{team}", {"policy": {"sleeptime": bad}})
        assert answer.status == 422, bad
        assert word in answer.body["detail"], answer.body["detail"]
