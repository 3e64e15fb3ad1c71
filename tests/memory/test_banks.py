"""Which bank a turn goes to and who may open which: walls between people, agents and templates."""

import asyncio
from dataclasses import replace

import pytest

from circadia.errors import Conflict, Forbidden, InvalidRequest, NotFound
from circadia.ids import AgentId, BankId, SessionId
from circadia.memory.banks import NewBank, may_keep_question
from circadia.records.agent import Agent, AgentPolicy
from circadia.records.bank import NAME, Bank, BankPolicy, CaptureMode
from circadia.records.principal import Principal
from circadia.testing.clock import START
from tests.memory.world import POLICIES, World

PEOPLE = (
    "ann",
    "Ann",
    "ANN",
    " ann",
    "ann ",
    "ann@x.org",
    "Ünal",
    "李",
    "~" + "0" * 32,
    "a" * 63,
    "a" * 300,
    "..",
    "/",
)


def agent(policy: AgentPolicy) -> Principal:
    made = Agent(
        id=AgentId("agt_1"), session_id=SessionId("ses_1"), session="default", name="ada", token_hash="x",
        asleep=False, since=START, created_at=START, policy=policy,
    )  # fmt: skip
    return Principal(agent=made)


async def bound(world: World, policy: AgentPolicy, user: str | None, *, make: bool = True) -> Bank | None:
    async with world.store.begin_write() as tx:
        return await world.banks.resolve_bound_bank(tx, policy, user, make=make)


async def opened(
    world: World, who: Principal, name: str | None = None, *, write: bool = False, user: str | None = None
) -> Bank:
    async with world.store.begin_write() as tx:
        return await world.banks.open_bank(tx, who, name, write=write, user=user)


@pytest.mark.spec("MEM-12")
async def test_each_person_has_a_bank_of_their_own_whatever_they_are_called(world: World) -> None:
    template = AgentPolicy(bank="support-{user}", multi_user=True)
    other = AgentPolicy(bank="support-a-{user}")
    made: dict[tuple[str | None, str], Bank] = {}
    for user in (*PEOPLE, "a-ann"):
        for policy in (template, other):
            assert await bound(world, policy, user, make=False) is None
            bank = await bound(world, policy, user)
            assert bank is not None
            assert (bank.template, bank.end_user) == (policy.bank, user)
            assert NAME.fullmatch(bank.name), "it can be named in a path"
            made[policy.bank, user] = bank
            assert await bound(world, policy, user) == bank
    assert len({bank.id for bank in made.values()}) == len({bank.name for bank in made.values()}) == len(made)
    assert made["support-{user}", "ann"].name == "support-ann"
    assert made["support-{user}", "ann"].policy == POLICIES["support-{user}"]
    hashed = made["support-{user}", "Ann"].name
    assert "nn" not in hashed.removeprefix("support-~")


@pytest.mark.spec("MEM-12")
async def test_a_name_that_somebody_else_has_is_not_taken_over(world: World) -> None:
    async with world.store.begin_write() as tx:
        foreign = await world.banks.create(tx, NewBank(name="support-bob"), by="operator")
    bank = await bound(world, AgentPolicy(bank="support-{user}"), "bob")
    assert bank is not None
    assert bank.id != foreign.id
    assert bank.name.startswith("support-~")
    with pytest.raises(Forbidden):
        await opened(world, agent(AgentPolicy(bank="support-{user}")), "support-bob")


@pytest.mark.spec("MEM-12")
@pytest.mark.parametrize("user", [None, ""])
async def test_a_turn_without_a_known_person_has_no_bank_where_people_are_served(
    world: World, user: str | None
) -> None:
    assert await bound(world, AgentPolicy(bank="support-{user}"), user) is None
    assert await bound(world, AgentPolicy(bank="team", multi_user=True), user) is None
    assert await bound(world, AgentPolicy(), "ann") is None
    team = await bound(world, AgentPolicy(bank="team"), user)
    assert team is not None
    assert (team.name, team.policy, team.template) == ("team", POLICIES["team"], None)
    with pytest.raises(InvalidRequest, match="user"):
        await opened(world, agent(AgentPolicy(bank="support-{user}")), user=user)


@pytest.mark.spec("MEM-12")
async def test_people_who_come_at_once_get_one_bank_each(world: World) -> None:
    policy = AgentPolicy(bank="support-{user}")
    banks = await asyncio.gather(*(bound(world, policy, user) for user in ("ann", "bob") * 8))
    assert len({bank.id for bank in banks if bank is not None}) == 2


@pytest.mark.spec("MEM-12")
async def test_an_agent_opens_its_banks_only_and_writes_where_it_may(world: World) -> None:
    policy = AgentPolicy(bank="own", write_banks=("shared", "desk-{user}"), read_banks=("handbook", "file-{user}"))
    who = agent(policy)
    handbook = await world.add_bank("handbook")
    assert (await opened(world, who, write=True)).name == "own"
    assert (await opened(world, who)).name == "own"
    assert (await opened(world, who, "shared", write=True)).name == "shared"
    assert (await opened(world, who, "handbook")).id == handbook.id
    for name in ("handbook", "file-{user}"):
        with pytest.raises(Forbidden, match="only read"):
            await opened(world, who, name, write=True, user="bob")
    desk = await opened(world, who, "desk-{user}", write=True, user="bob")
    assert await opened(world, who, desk.name, write=True) == desk
    for name in ("ann", "nothing", "desk-", "", "desk-{user", "own "):
        if name:
            with pytest.raises(Forbidden):
                await opened(world, who, name)
    for name, user in (("file-{user}", "bob"), ("desk-{user}", "eve")):
        with pytest.raises(NotFound, match="nothing yet"):
            await opened(world, who, name, user=user)
    with pytest.raises(InvalidRequest, match="has no bank"):
        await opened(world, agent(AgentPolicy()))
    async with world.store.begin_read() as tx:
        names = {each.name for each in await tx.banks.find_all()}
        listed = {each.name for each in await world.banks.list_banks(tx, who)}
    assert names == {"ann", "handbook", "own", "shared", "desk-bob"}, "what was refused made no bank"
    assert listed == names - {"ann"}


@pytest.mark.spec("MEM-12")
async def test_nobody_gets_into_a_shared_bank_by_being_called_like_the_rest_of_its_name(world: World) -> None:
    template, shared = AgentPolicy(bank="team-{user}"), AgentPolicy(bank="team-notes")

    async def bound(policy: AgentPolicy, user: str | None, *, make: bool) -> Bank | None:
        async with world.store.begin_write() as tx:
            return await world.banks.resolve_bound_bank(tx, policy, user, make=make)

    mine = await bound(template, "notes", make=True)
    assert mine is not None
    assert await bound(shared, None, make=False) is None
    theirs = await bound(shared, None, make=True)
    assert theirs is not None
    assert (theirs.id != mine.id, theirs.name, theirs.end_user) == (True, "team-notes", None)
    again = await bound(template, "notes", make=True)
    assert again is not None
    assert (again.id, again.name.startswith("team-~")) == (mine.id, True)
    assert await bound(shared, None, make=True) == theirs
    late = await bound(AgentPolicy(bank="{user}-notes"), "team", make=True)
    assert late is not None
    assert late.id not in (mine.id, theirs.id)
    # Whose bank a person has named on purpose is theirs to share.
    async with world.store.begin_write() as tx:
        await world.banks.change(tx, mine, by="operator", name="hers")
    hers = await bound(AgentPolicy(bank="hers"), None, make=True)
    assert hers is not None
    assert hers.id == mine.id


@pytest.mark.spec("MEM-12")
async def test_a_read_only_file_of_a_person_is_read_by_its_name_and_not_written(world: World) -> None:
    made = await bound(world, AgentPolicy(bank="file-{user}"), "bob")
    assert made is not None
    reader = agent(AgentPolicy(read_banks=("file-{user}",)))
    assert await opened(world, reader, "file-{user}", user="bob") == made
    assert await opened(world, reader, made.name) == made
    with pytest.raises(Forbidden):
        await opened(world, reader, made.name, write=True)


@pytest.mark.spec("MEM-12")
async def test_the_operator_opens_each_bank_by_its_name_and_must_name_one(world: World) -> None:
    assert (await opened(world, Principal(), "ann", write=True)).id == world.bank.id
    with pytest.raises(InvalidRequest):
        await opened(world, Principal())
    with pytest.raises(NotFound, match="ann"):
        await opened(world, Principal(), "anm")


@pytest.mark.spec("MEM-12")
async def test_a_bank_that_is_renamed_stays_its_persons_and_keeps_what_it_holds(world: World) -> None:
    policy = AgentPolicy(bank="support-{user}")
    bank = await bound(world, policy, "bob")
    assert bank is not None
    await world.remember("tea", bank=bank)
    async with world.store.begin_write() as tx:
        await world.banks.change(tx, bank, by="operator", name="robert", description="d")
    again = await bound(world, policy, "bob")
    assert again is not None
    assert (again.id, again.name, again.description) == (bank.id, "robert", "d")
    assert await world.texts("tea", bank=again) == ["tea"]
    for name in ("ann", "Bad Name", "support-{user}", "", "a" * 129):
        with pytest.raises(Conflict if name == "ann" else InvalidRequest):
            async with world.store.begin_write() as tx:
                await world.banks.change(tx, again, by="operator", name=name)
    assert await bound(world, policy, "bob") == again


@pytest.mark.spec("MEM-12")
async def test_two_banks_of_one_name_cannot_be_and_a_deleted_one_takes_all_with_it(world: World) -> None:
    with pytest.raises(Conflict, match="'ann'"):
        await world.add_bank("ann")
    made = await world.remember("tea")
    await world.note("about tea", [made.episode.id])
    await world.write("human", "tea")
    async with world.store.begin_write() as tx:
        await world.banks.delete(tx, world.bank, by="operator")
    again = await world.add_bank("ann")
    assert again.id != world.bank.id
    async with world.store.begin_read() as tx:
        assert await tx.episodes.count(again.id) == await tx.episodes.count(world.bank.id) == 0
        assert await tx.blocks.labels(again.id) == []


@pytest.mark.spec("MEM-18")
async def test_a_banks_policy_is_kept_and_left_out_turns_are_counted_by_why(world: World) -> None:
    policy = BankPolicy(min_importance=0.4, duplicate_seconds=0.0, keep_days=2.5)
    async with world.store.begin_write() as tx:
        await world.banks.change(tx, world.bank, by="operator", policy=policy)
        for why in ("short", "short", "unimportant"):
            await tx.banks.count_skipped_turn(world.bank.id, why)
    found = await world.present()
    assert found == replace(world.bank, policy=policy, skipped={"short": 2, "unimportant": 1})


@pytest.mark.spec("MEM-14", "MEM-18")
@pytest.mark.parametrize(
    ("policy", "mode", "template", "kept"),
    [
        (AgentPolicy(bank="ann"), CaptureMode.CONTENT, None, True),
        (AgentPolicy(bank="ann"), CaptureMode.EXPLICIT, None, False),
        (AgentPolicy(bank="ann", capture=False), CaptureMode.CONTENT, None, False),
        (AgentPolicy(bank="ann", read_banks=("ann",)), CaptureMode.CONTENT, None, False),
        (AgentPolicy(bank="bob", read_banks=("of-{user}",)), CaptureMode.CONTENT, "of-{user}", False),
    ],
)
def test_a_question_is_not_kept_where_the_turns_are_not(
    policy: AgentPolicy, mode: CaptureMode, template: str | None, kept: bool
) -> None:
    by = agent(policy).agent
    assert by is not None
    bank = Bank(id=BankId("b1"), name="ann", created_at=START, template=template, policy=BankPolicy(capture_mode=mode))
    assert may_keep_question(bank, by) is kept
