"""Lists of notes and of passes over all banks, and the undo of single changes."""

from typing import Any

import pytest

from circadia.ids import NoteId, PassId
from circadia.records.change import Change, ChangeKind
from circadia.records.sleep_pass import PassStatus
from tests.api.pass_steps import found, note, sources, worked
from tests.api.service import Service


@pytest.mark.spec("SLEEP-32", "SLEEP-61")
async def test_single_changes_are_undone_and_one_on_which_a_later_one_rests_only_with_it(
    service: Service, team: str
) -> None:
    run = await service.ok("POST", f"/banks/{team}/passes")
    told = await sources(service, team)
    now = service.clock.now()

    def change(kind: ChangeKind, target: str, **more: Any) -> Change:
        return Change(pass_id=PassId(""), number=0, operation="dedupe", kind=kind, target=target, at=now, **more)

    stale = {"reason": "over", "evidence": "not_2", "weight": 0.3}
    await worked(
        service, run["id"],
        note(service, "not_1", told), note(service, "not_2", told), note(service, "not_3", told),
        change(ChangeKind.RETIRE_NOTE, "not_1", after={"instead": "not_2"}),
        change(ChangeKind.DEMOTE_EPISODE, told[0], after=stale),
        change(ChangeKind.WRITE_BLOCK, "human", after={"value": "Ann lives in Porto."}),
        change(
            ChangeKind.WRITE_BLOCK, "human", after={"value": "Ann lives in Porto.\nShe has a cat."},
            before={"version": 1, "value": "Ann lives in Porto."},
        ),
    )  # fmt: skip
    path = f"/passes/{run['id']}/undo"
    for numbers, others in (([2], "4, 5"), ([2, 4], "5"), ([1, 3], "4"), ([6], "7")):
        refused = await service.call("POST", path, {"numbers": numbers})
        assert (refused.status, refused.code) == (409, "conflict"), numbers
        assert refused.body["detail"].endswith(f"undo them too, or first: {others}")
    published = (await service.ok("GET", f"/passes/{run['id']}/changes?state=published"))["changes"]
    assert len(published) == 7, "a refused undo changes nothing"
    assert (await service.call("POST", path, {"numbers": [3, 9]})).status == 404
    done = await service.ok("POST", path, {"numbers": [3, 7]})
    assert [(each["number"], each["state"]) for each in done["changes"]] == [(3, "undone"), (7, "undone")]
    assert (await service.ok("GET", f"/banks/{team}/blocks/human"))["value"] == "Ann lives in Porto."
    assert await found(service, team) == ["not_2"]
    assert (await service.call("POST", path, {"numbers": [3]})).status == 404, "it is undone already"
    await service.ok("POST", path, {"numbers": [4]})
    assert sorted(await found(service, team)) == ["not_1", "not_2"]
    rest = await service.ok("POST", path)
    assert [each["number"] for each in rest["changes"]] == [1, 2, 5, 6]
    assert await found(service, team) == []


@pytest.mark.spec("SLEEP-61")
async def test_the_notes_of_a_bank_come_newest_first_in_pages_of_live_or_retired_ones(
    service: Service, team: str
) -> None:
    run = await service.ok("POST", f"/banks/{team}/passes")
    told = await sources(service, team)
    await worked(service, run["id"], *(note(service, f"not_{at}", told, f"Ann lives in {at}.") for at in range(5)))
    async with service.parts.store.begin_write() as tx:
        for key in ("not_1", "not_3"):
            await tx.notes.retire(NoteId(key), service.clock.now())

    async def listed(query: str) -> tuple[list[str], int | None]:
        page = await service.ok("GET", f"/banks/{team}/notes{query}")
        return [each["id"] for each in page["notes"]], page["after"]

    assert await listed("") == (["not_4", "not_3", "not_2", "not_1", "not_0"], None)
    assert await listed("?state=retired") == (["not_3", "not_1"], None)
    first, after = await listed("?state=live&limit=2")
    assert first == ["not_4", "not_2"]
    assert await listed(f"?state=live&limit=2&after={after}") == (["not_0"], None)
    newest = (await service.ok("GET", f"/banks/{team}/notes?limit=1"))["notes"][0]
    assert (newest["text"], newest["kind"], newest["evidence_count"]) == ("Ann lives in 4.", "consolidation", 2)
    assert (newest["pass"], newest["trust"], newest["retired_at"]) == (run["id"], "person", None)
    assert (await service.call("GET", f"/banks/{team}/notes?state=gone")).status == 422
    assert (await service.call("GET", "/banks/nobody/notes")).status == 404


@pytest.mark.spec("SLEEP-61")
async def test_passes_over_all_banks_come_newest_first_by_status_and_time_in_pages(service: Service, team: str) -> None:
    keys: list[str] = []
    for status in (PassStatus.FAILED, PassStatus.SUCCEEDED, PassStatus.PARTIAL, PassStatus.FAILED):
        bank = f"bank-{len(keys) % 2}"
        await service.call("POST", "/banks", {"name": bank})
        keys.append((await service.ok("POST", f"/banks/{bank}/passes"))["id"])
        await worked(service, keys[-1], status=status)
        service.clock.advance(3600)

    async def listed(query: str) -> tuple[list[str], str | None]:
        page = await service.ok("GET", f"/passes{query}")
        return [each["id"] for each in page["passes"]], page["before"]

    assert await listed("") == (keys[::-1], None)
    assert await listed("?status=failed") == ([keys[3], keys[0]], None)
    assert await listed("?status=failed&status=partial&limit=2") == ([keys[3], keys[2]], keys[2])
    assert await listed(f"?status=failed&status=partial&limit=2&before={keys[2]}") == ([keys[0]], None)
    assert await listed("?since=2026-01-01T02:00:00Z") == ([keys[3], keys[2]], None)
    assert await listed("?since=2026-01-01T01:30:00Z&status=succeeded") == ([], None)
    newest = (await service.ok("GET", "/passes?limit=1"))["passes"][0]
    assert newest.items() <= (await service.ok("GET", f"/passes/{keys[3]}")).items()
    assert (newest["bank"], newest["trigger"], newest["counts"], newest["spent"]["calls"]) == ("bank-1", "hand", {}, 0)
    unknown = await service.call("GET", "/passes?before=pas_0")
    assert (unknown.status, unknown.code) == (422, "invalid_request")
    assert (await service.call("GET", "/passes?status=odd")).status == 422
