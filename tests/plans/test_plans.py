"""What each statement of the suite takes does not grow with what is stored.

`make test` records the statements that all tests make the program send, in child processes too, and runs this last.
"""

import os
import re
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest

from benchmarks.postgres import connect
from benchmarks.world import FIXTURE, TENTH, fill_postgres, fill_sqlite
from tests.fixtures.postgres import PostgresServer
from tests.plans.allowed import ALLOWED, IN_LOOP
from tests.plans.world_databases import PostgresWorld, SqliteWorld, Unusable, WorldDatabase, shrink_pages
from tests.recording.statement_recorder import FOLDER, SentStatement, load

pytestmark = [pytest.mark.spec("LARGE-02"), pytest.mark.timeout(600)]
KINDS = ("SELECT", "INSERT", "UPDATE", "DELETE", "WITH")
FACTOR = 1.5
"""How many times the work a statement may take at ten times the size."""
FREE = {"sqlite": 2_000, "postgresql": 400}
"""Steps, or rows and pages, that are nothing: what a planner reads of a small table rather than use an index."""
WHOLE_SUITE = 400
"""Statements that are recorded at least when the whole suite has run."""


@pytest.fixture(scope="module")
def statements() -> list[SentStatement]:
    """What the suite has sent, without the definition of tables."""
    folder = os.environ.get(FOLDER)
    assert folder, f"`make test` records statements; {FOLDER} names no folder"
    sent = [each for each in load(Path(folder)) if each.text.lstrip().partition(" ")[0].upper() in KINDS]
    assert len(sent) > WHOLE_SUITE, f"only {len(sent)} statements are recorded: run `make test`"
    # Reads first: what a write leaves behind when it is rolled back would count for them.
    return sorted(sent, key=lambda each: not each.text.lstrip().upper().startswith("SELECT"))


@pytest.fixture
async def sqlite_worlds() -> AsyncIterator[tuple[WorldDatabase, WorldDatabase]]:
    """A database of the tenth, and one of the whole."""
    with tempfile.TemporaryDirectory() as folder:
        worlds: list[SqliteWorld] = []
        for name, size in (("tenth", TENTH), ("whole", FIXTURE)):
            place = Path(folder) / name
            place.mkdir()
            await fill_sqlite(place, size)
            worlds.append(SqliteWorld(place))
        yield worlds[0], worlds[1]
        for world in worlds:
            world.close()


@pytest.fixture
async def postgres_worlds(postgres_server: PostgresServer) -> AsyncIterator[tuple[WorldDatabase, WorldDatabase]]:
    """The same on PostgreSQL."""
    urls: list[str] = []
    for size in (TENTH, FIXTURE):
        urls.append(postgres_server.url(await postgres_server.make_database("template1")))
        await fill_postgres(urls[-1], size)
    tenth, whole = [await connect(url) for url in urls]
    yield PostgresWorld(tenth), PostgresWorld(whole)
    await tenth.close()
    await whole.close()


async def find_growing(
    statements: list[SentStatement], dialect: str, worlds: tuple[WorldDatabase, WorldDatabase]
) -> Mapping[SentStatement, tuple[int, int]]:
    """Return the statements that take more work in the whole than in the tenth, with the work in both."""
    tenth, whole = worlds
    growing: dict[SentStatement, tuple[int, int]] = {}
    for each in statements:
        if each.dialect != dialect:
            continue
        statement = shrink_pages(each)
        try:
            work = await tenth.measure(statement), await whole.measure(statement)
        except Unusable:
            continue  # it is of another schema, or its values are of the test alone
        if work[1] > FACTOR * work[0] + FREE[dialect]:
            growing[statement._replace(values=())] = work
    return growing


def find_reason(text: str, reasons: Mapping[str, str]) -> str | None:
    """Return the pattern of allowed statements that this one matches."""
    flat = " ".join(text.split())
    return next((pattern for pattern in reasons if re.search(pattern, flat)), None)


def check(growing: Mapping[SentStatement, tuple[int, int]]) -> None:
    """Fail with the statements that grow without a reason."""
    found = [
        f"{work[0]} -> {work[1]}: {' '.join(statement.text.split())[:1500]}"
        for statement, work in growing.items()
        if find_reason(statement.text, ALLOWED) is None
    ]
    assert not found, f"{len(found)} statements grow:\n" + "\n".join(found)


async def test_on_sqlite_no_statement_takes_more_work_when_more_is_stored_and_none_of_them_stops_the_loop(
    statements: list[SentStatement], sqlite_worlds: tuple[WorldDatabase, WorldDatabase]
) -> None:
    growing = await find_growing(statements, "sqlite", sqlite_worlds)
    stopping = [each.text for each in growing if each.in_loop and find_reason(each.text, IN_LOOP) is None]
    assert not stopping, f"{len(stopping)} run in the event loop; pass short=False:\n" + "\n".join(stopping)
    check(growing)


async def test_on_postgresql_no_statement_takes_more_work_when_more_is_stored(
    statements: list[SentStatement], postgres_worlds: tuple[WorldDatabase, WorldDatabase]
) -> None:
    check(await find_growing(statements, "postgresql", postgres_worlds))


def test_each_reason_is_still_needed(statements: list[SentStatement]) -> None:
    uses = Counter(find_reason(each.text, ALLOWED) for each in statements)
    assert not [pattern for pattern in ALLOWED if not uses[pattern]]
