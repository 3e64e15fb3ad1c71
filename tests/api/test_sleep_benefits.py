"""What operations bring and cost over REST, and whose searches count."""

import pytest

from circadia.ids import AgentId, BankId, CallId, NoteId, PassId
from circadia.memory.search.terms import stored_terms
from circadia.records.bank import Trust
from circadia.records.call import Call, CallStatus
from circadia.records.note import Note, NoteKind
from circadia.records.sleep_call import Benefit, SleepCall
from tests.api.service import ADMIN, Service


async def team_of(service: Service) -> BankId:
    """Make the bank `team` and return its id."""
    await service.ok("POST", "/banks", {"name": "team"})
    async with service.parts.store.begin_read() as tx:
        bank = await tx.banks.get_by_name("team")
    assert bank is not None
    return bank.id


@pytest.mark.spec("SLEEP-86", "SLEEP-61")
async def test_status_tells_what_operations_bring_and_cost(service: Service) -> None:
    bank, now = await team_of(service), service.clock.now()
    gain = Benefit(
        bank_id=bank, operation="reflect", day=now.date(), uses=2, saved_tokens=300, saved_seconds=0.25,
        saved_nanousd=1_000, unpriced_tokens=0,
    )  # fmt: skip
    line = Call(
        id=CallId("c1"), at=now, agent_id=AgentId(""), session="", agent="", tier="sleep", upstream="openai",
        endpoint="chat", model="small", status=CallStatus.DONE, input_tokens=100, cost_nanousd=4_000,
        reasoning_tokens=30,
    )  # fmt: skip
    asked = SleepCall(
        id=line.id, pass_id=PassId("p"), bank_id=bank, operation="reflect", key="k", at=now, thinking_nanousd=1_000
    )
    async with service.parts.store.begin_write() as tx:
        await tx.benefits.add([gain])
        await tx.calls.add([line])
        await tx.sleep_calls.add(asked)
    (found,) = (await service.ok("GET", "/banks/team/sleeptime"))["balances"]
    assert found == {
        "operation": "reflect", "uses": 2, "saved_tokens": 300, "saved_seconds": 0.25, "saved_usd": 1e-6, "calls": 1,
        "spent_tokens": 100, "spent_usd": 4e-6, "thinking_tokens": 30, "thinking_usd": 1e-6,
    }  # fmt: skip


@pytest.mark.spec("SLEEP-86")
async def test_what_a_search_hands_to_an_agent_is_noted_and_what_a_person_looks_at_is_not(service: Service) -> None:
    bank = await team_of(service)
    said = [
        await service.ok("POST", "/banks/team/episodes", {"text": text, "speaker": "ann"})
        for text in ("Ann lives in Porto.", "Ann has moved to Porto.")
    ]
    note = Note(
        id=NoteId("not_1"), number=0, bank_id=bank, kind=NoteKind.CONSOLIDATION, text="Porto it is.",
        evidence=[each["id"] for each in said], pass_id="p", trust=Trust.PERSON, at=service.clock.now(),
        created_at=service.clock.now(), terms=stored_terms("Porto it is."),
    )  # fmt: skip
    async with service.parts.store.begin_write() as tx:
        await tx.notes.add(note)
    ann = await service.agent("ann", policy={"bank": "team"})
    for token in (ADMIN, ann):
        for path in ("search?q=Porto", "context?q=Porto"):
            await service.ok("GET", f"/banks/team/{path}", token=token)
    taken = service.parts.memory.uses.drain()
    assert [(len(each.notes), len(each.episodes), each.model) for each in taken] == [(1, 2, None)] * 2
