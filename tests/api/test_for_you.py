"""What waits for a person over REST, and that each act on memory leaves an event with its actor (UI-19)."""

from typing import Any

import pytest

from circadia.ids import AlertId, PassId
from circadia.records.alert import AlertRecord
from circadia.records.change import Change, ChangeKind
from tests.api.pass_steps import note, noted, sources, worked
from tests.api.service import Service
from tests.api.test_answers import ready

pytestmark = pytest.mark.spec("UI-19")


async def acts(service: Service, *types: str) -> list[dict[str, Any]]:
    """Return the data of the events of these types."""
    return [event["data"] for kind in types for event in await service.events(kind)]


async def test_accept_refuse_and_undo_of_changes_are_events_with_actor_pass_and_numbers(
    service: Service, team: str
) -> None:
    run = await service.ok("POST", "/banks/team/passes", {"review": True})
    said = await sources(service, team)
    await worked(service, run["id"], note(service, "not_1", said), note(service, "not_2", said, "Ann is in Porto."))
    ann = (await service.ok("POST", "/tokens", {"name": "ann", "role": "operator"}))["token"]
    await service.ok("POST", f"/passes/{run['id']}/accept", {"numbers": [1]}, token=ann)
    await service.ok("POST", f"/passes/{run['id']}/refuse")
    await service.ok("POST", f"/passes/{run['id']}/undo", token=ann)
    said_of = [
        (each["act"], each["by"], each["pass"], each["bank"], each["numbers"], each["changes"], each["failed"])
        for each in await acts(service, "reviewed")
    ]
    assert said_of == [
        ("accepted", "operator/ann", run["id"], "team", [1], 1, 0),
        ("refused", "operator", run["id"], "team", [2], 1, 0),
        ("undone", "operator/ann", run["id"], "team", [1], 1, 0),
    ]


async def test_who_asked_for_a_pass_and_who_cancelled_it_is_in_its_events(service: Service, team: str) -> None:
    run = await service.ok("POST", "/banks/team/passes")
    ann = (await service.ok("POST", "/tokens", {"name": "ann", "role": "operator"}))["token"]
    await service.ok("POST", f"/passes/{run['id']}/cancel", token=ann)
    events = await acts(service, "pass")
    assert [(each["status"], each["by"]) for each in events] == [("pending", "operator"), ("cancelled", "operator/ann")]


async def test_a_demotion_its_undo_and_a_promotion_are_events_with_their_actor(service: Service, team: str) -> None:
    episode, other = await sources(service, team)
    for _ in range(2):
        await service.ok("POST", f"/banks/team/episodes/{episode}/stale", {"evidence": other})
    for _ in range(2):
        await service.ok("DELETE", f"/banks/team/episodes/{episode}/stale/{other}")
    common = {"bank": "team", "by": "operator", "episode": episode, "evidence": other}
    assert await acts(service, "demoted") == [{**common, "demoted": True}, {**common, "demoted": False}]
    await noted(service, "team")
    await service.ok("POST", "/banks", {"name": "all"})
    copies = [await service.ok("POST", "/banks/team/notes/not_1/promote", {"to": "all"}) for _ in range(2)]
    assert await acts(service, "promoted") == [
        {"bank": "all", "by": "operator", "source": "team", "note": "not_1", "episode": copies[0]["id"]}
    ]


async def test_dropped_ready_answers_are_events_with_their_actor_and_none_without_any(service: Service) -> None:
    one = await ready(service, "one")
    for name in ("two", "three"):
        await ready(service, name)
    await service.ok("DELETE", f"/banks/support/answers/{one.id}")
    for _ in range(2):
        await service.ok("DELETE", "/banks/support/answers")
    assert await acts(service, "answers_dropped") == [
        {"bank": "support", "by": "operator", "answers": 1, "answer": one.id},
        {"bank": "support", "by": "operator", "answers": 2},
    ]


async def test_proposals_of_all_banks_come_with_the_texts_that_they_concern_and_rest_on(
    service: Service, team: str
) -> None:
    await service.ok("POST", "/banks", {"name": "other"})
    await service.ok("POST", "/banks/other/episodes", {"text": "Bob is in Porto.", "speaker": "bob"})
    runs: list[str] = []
    for bank in ("team", "other"):
        said = await sources(service, bank)
        run = await service.ok("POST", f"/banks/{bank}/passes", {"review": True})
        demotion = Change(
            pass_id=PassId(""), number=0, operation="collect", kind=ChangeKind.DEMOTE_EPISODE, target=said[0],
            after={"reason": "said twice", "evidence": said[-1], "weight": 0.3}, at=service.clock.now(),
        )  # fmt: skip
        await worked(service, run["id"], note(service, f"not_{bank}", said), demotion)
        runs.append(run["id"])
    dry = await service.ok("POST", "/banks/team/passes", {"dry_run": True})
    await worked(service, dry["id"], note(service, "not_dry", await sources(service, "team")))
    first = await service.ok("GET", "/proposals?limit=3")
    rest = await service.ok("GET", f"/proposals?after={first['after']}")
    shown = [*first["proposals"], *rest["proposals"]]
    assert [(each["bank"], each["pass"], each["number"]) for each in shown] == [
        ("team", runs[0], 1), ("team", runs[0], 2), ("other", runs[1], 1), ("other", runs[1], 2),
    ]  # fmt: skip
    assert rest["after"] is None
    texts = [[(text["role"], text["text"], text["speaker"]) for text in each["texts"]] for each in shown]
    assert texts[0] == [("source", "Ann lives in Porto.", "ann"), ("source", "Ann has moved to Porto.", "ann")]
    assert texts[1] == [("target", "Ann lives in Porto.", "ann"), ("source", "Ann has moved to Porto.", "ann")]
    assert [each["bank"] for each in (await service.ok("GET", "/proposals?bank=other"))["proposals"]] == ["other"] * 2
    same = (await service.ok("GET", f"/passes/{runs[0]}/changes?texts=true"))["changes"]
    assert [each["texts"] for each in same] == [each["texts"] for each in shown[:2]]
    assert (await service.ok("GET", "/for-you"))["proposals"] == 4
    await service.ok("POST", f"/passes/{runs[0]}/refuse")
    assert (await service.ok("GET", "/for-you"))["proposals"] == 2
    for after in ("nothing", "pas_1:", "pas_1:²", "pas_1:" + "9" * 19, "pas_1:" + "9" * 5000):
        assert (await service.call("GET", f"/proposals?after={after}")).code == "invalid_request"


async def test_alerts_have_a_history_and_are_acknowledged_once_by_name(service: Service) -> None:
    async with service.parts.store.begin_write() as tx:
        for number, cause in enumerate(("budget", "circuit_open", "budget")):
            await tx.alert_history.add(
                AlertRecord(
                    id=AlertId(f"alr_{number}"), cause=cause, session="default", agent="ann", at=service.clock.now(),
                    detail={"failures": number},
                )
            )  # fmt: skip
    newest = await service.ok("GET", "/alerts?limit=2")
    assert ([each["id"] for each in newest["alerts"]], newest["before"]) == (["alr_2", "alr_1"], "alr_1")
    assert [each["id"] for each in (await service.ok("GET", "/alerts?before=alr_1"))["alerts"]] == ["alr_0"]
    assert (await service.ok("GET", "/for-you"))["alerts"] == 3
    ann = (await service.ok("POST", "/tokens", {"name": "ann", "role": "operator"}))["token"]
    for token in (ann, None):
        done = await service.ok("POST", "/alerts/alr_1/acknowledge", **({"token": token} if token else {}))
        assert (done["acknowledged_by"], done["detail"]) == ("operator/ann", {"failures": 1})
    assert [(each["alert"], each["cause"], each["by"]) for each in await acts(service, "alert_acknowledged")] == [
        ("alr_1", "circuit_open", "operator/ann")
    ]
    assert [each["id"] for each in (await service.ok("GET", "/alerts?open=true"))["alerts"]] == ["alr_2", "alr_0"]
    assert [each["id"] for each in (await service.ok("GET", "/alerts?cause=budget"))["alerts"]] == ["alr_2", "alr_0"]
    assert (await service.ok("GET", "/for-you"))["alerts"] == 2
    assert (await service.ok("GET", "/alerts/alr_1"))["cause"] == "circuit_open"
    missing = await service.call("POST", "/alerts/none/acknowledge")
    assert (missing.status, missing.code) == (404, "not_found")
    viewer = (await service.ok("POST", "/tokens", {"name": "eve", "role": "viewer"}))["token"]
    assert (await service.call("POST", "/alerts/alr_2/acknowledge", token=viewer)).status == 403
