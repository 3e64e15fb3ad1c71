"""Passes as a worker does them, for tests of what REST says of them."""

from collections.abc import Mapping, Sequence

from circadia.ids import PassId
from circadia.records.bank import Bank
from circadia.records.change import Change, ChangeKind
from circadia.records.sleep_pass import Pass, PassStatus
from circadia.sleeptime.publish.publisher import PageProgress
from tests.api.service import Service


async def taken(service: Service, key: str) -> tuple[Pass, Bank]:
    """Take a pass as a worker does."""
    async with service.parts.store.begin_write() as tx:
        (run,) = await tx.passes.claim("worker", now=(now := service.clock.now()), until=now, limit=1)
        assert run.id == key
        bank = await tx.banks.get(run.bank_id)
        assert bank is not None
        return await service.parts.sleeptime.rows.start(tx, bank, run), bank


def note(service: Service, key: str, sources: Sequence[str], text: str = "Ann lives in Porto.") -> Change:
    after = {
        "id": key, "kind": "consolidation", "text": text, "evidence": list(sources), "trust": "person",
        "importance": None, "at": service.clock.now().isoformat(),
    }  # fmt: skip
    return Change(
        pass_id=PassId(""), number=0, operation="consolidate", kind=ChangeKind.ADD_NOTE, target=key, after=after,
        why="they say the same", at=service.clock.now(),
    )  # fmt: skip


async def worked(service: Service, key: str, *changes: Change, status: PassStatus = PassStatus.SUCCEEDED) -> None:
    """Publish changes of a pass as a worker does, and end it."""
    run, bank = await taken(service, key)
    tier = service.parts.sleeptime
    async with service.parts.store.begin_write() as tx:
        run = await tier.publisher.publish(tx, run, bank, changes, PageProgress(upto=run.upto, leftovers=()), ())
        await tier.rows.end(tx, bank, run, status, "it is done")


async def sources(service: Service, bank: str) -> list[str]:
    return [each["id"] for each in (await service.ok("GET", f"/banks/{bank}/episodes"))["episodes"]]


async def noted(service: Service, bank: str, body: Mapping[str, object] | None = None, key: str = "not_1") -> str:
    """Make a pass that proposes a note, and return its key."""
    run = await service.ok("POST", f"/banks/{bank}/passes", body)
    await worked(service, run["id"], note(service, key, await sources(service, bank)))
    return run["id"]


async def found(service: Service, bank: str, layer: str = "notes") -> list[str]:
    hits = await service.ok("GET", f"/banks/{bank}/search?q=Porto&layer={layer}")
    return [each["id"] for each in hits["hits"]]
