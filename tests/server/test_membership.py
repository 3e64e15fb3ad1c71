"""A member's clock: it follows the database's, whatever the way there takes."""

from datetime import UTC, datetime, timedelta

import pytest

from circadia.clock import SystemClock
from circadia.errors import StartError
from circadia.ids import MemberId
from circadia.records.member import Member, Role
from circadia.server.membership import Membership
from circadia.stores.base import Store
from tests.watched_store import HookedStore

NOW = datetime(2026, 3, 29, 1, tzinfo=UTC)
AHEAD = timedelta(minutes=7)


class TripClock(SystemClock):
    """A machine's clock that a test moves."""

    seconds = 100.0

    def now(self) -> datetime:
        return NOW + timedelta(seconds=self.seconds) + self.offset

    def monotonic(self) -> float:
        return self.seconds


class FarStore(HookedStore):
    """A store whose database is minutes ahead, and reads its clock halfway between question and answer."""

    def __init__(self, store: Store, clock: TripClock, trip_seconds: float) -> None:
        super().__init__(store)
        self._clock = clock
        self._trip_seconds = trip_seconds
        self.read_clock = self._read_clock

    async def _read_clock(self) -> datetime:
        self._clock.seconds += self._trip_seconds / 2
        read = NOW + timedelta(seconds=self._clock.seconds) + AHEAD
        self._clock.seconds += self._trip_seconds / 2
        return read


@pytest.mark.spec("CLU-25")
@pytest.mark.parametrize(("trip_seconds", "offset"), [(0.0, AHEAD), (0.25, AHEAD), (0.5, timedelta())])
async def test_the_way_to_the_database_does_not_shift_the_clock_and_a_slow_answer_is_not_used(
    sqlite_store: Store, trip_seconds: float, offset: timedelta
) -> None:
    clock = TripClock()
    member = Member(
        id=MemberId("mem_1"), role=Role.ALL, version="0", host="here", address="http://here:4114", token_check="check",
        started_at=NOW, lease_until=NOW,
    )  # fmt: skip
    membership = Membership(clock, FarStore(sqlite_store, clock, trip_seconds), member)
    await membership.join()
    assert clock.offset == offset
    assert membership.leads


def member_at(key: str, address: str) -> Member:
    return Member(
        id=MemberId(key), role=Role.ALL, version="0", host="here", address=address, token_check="check",
        started_at=NOW, lease_until=NOW, connections=6,
    )  # fmt: skip


async def test_the_row_that_a_member_left_when_it_died_does_not_count_against_its_next_start(
    sqlite_store: Store,
) -> None:
    clock = TripClock()
    store = FarStore(sqlite_store, clock, 0.0)
    await Membership(clock, store, member_at("mem_1", "http://here:4114")).join(max_connections=10)
    await Membership(clock, store, member_at("mem_2", "http://here:4114")).join(max_connections=10)
    with pytest.raises(StartError, match="PostgreSQL allows 10 connections; the other servers may open 6"):
        await Membership(clock, store, member_at("mem_3", "http://here:4115")).join(max_connections=10)


class SlowStore(FarStore):
    """A store whose commits take seconds."""

    commit_seconds = 0.0

    def before_commit(self) -> None:
        self._clock.seconds += self.commit_seconds


@pytest.mark.spec("CLU-11")
@pytest.mark.parametrize("renews", [False, True], ids=["joins", "beats"])
async def test_a_leader_takes_itself_for_one_no_longer_than_its_row_does(sqlite_store: Store, renews: bool) -> None:
    clock = TripClock()
    store = SlowStore(sqlite_store, clock, 0.0)
    membership = Membership(clock, store, member_at("mem_1", "http://here:4114"))
    if renews:
        await membership.join()
    store.commit_seconds = 4.0
    await (membership.beat() if renews else membership.join())
    clock.seconds += 10
    assert membership.leads
    clock.seconds += 1.5
    assert not membership.leads, "its lease of 15 seconds began before the commit"


@pytest.mark.spec("CLU-11")
async def test_who_has_given_up_the_lead_leaves_it_to_the_next(sqlite_store: Store) -> None:
    clock = TripClock()
    store = FarStore(sqlite_store, clock, 0.0)
    stopping, other = (Membership(clock, store, member_at(f"mem_{port}", f"http://here:{port}")) for port in (1, 2))
    await stopping.join()
    await other.join()
    assert (stopping.leads, other.leads) == (True, False)
    await stopping.resign()
    await stopping.beat()
    assert not stopping.leads
    await other.beat()
    assert other.leads
