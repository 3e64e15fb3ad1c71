"""What every store promises of a search in an inbox: the index makes it fast and changes nothing of what is found."""

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

import pytest

from circadia.ids import MessageId
from circadia.records.message import Delivery, DeliveryState, Priority
from circadia.stores.base import Store
from tests.contract.rows import agent, at, message, session, stored, thread

ANN, BOB, CID, TALK = agent("ann"), agent("bob"), agent("cid"), thread()
RARE: Final = (
    "Stra\u00dfe", "d\u00e9j\u00e0", "foo_bar", "deployment", "deploy", "7.1", "don't", "x" * 40, "\u0130zmir",
    "\u90e8\u7f72\u5931\u8d25", "cre\u0300me bru\u0302le\u0301e", "\uff32\uff25\uff36\uff13\uff12", "\ufb02ight",
    "\u0131\u015f\u0131kl\u0131", "\uff8a\uff9f\uff9d\uff80\uff9e", "GR\u00d6SSE", "MA\u1e9eE", "\u1112\u1161\u11ab",
)  # fmt: skip
"""Words that stand in a few messages."""
MESSAGES: Final = 500
"""More than a search reads one by one."""
QUERIES: Final[dict[str, Callable[[str], bool]]] = {
    "strasse": lambda text: "Stra\u00dfe" in text,
    "STRA": lambda text: "Stra\u00dfe" in text,
    "d\u00c9J": lambda text: "d\u00e9j\u00e0" in text,
    "FOO_BAR": lambda text: "foo_bar" in text,
    "bar": lambda text: False,
    "deja": lambda text: "d\u00e9j\u00e0" in text,
    "cr\u00e8me br\u00fbl\u00e9e": lambda text: "cre\u0300me" in text,
    "CREME": lambda text: "cre\u0300me" in text,
    "de\u0301ja\u0300": lambda text: "d\u00e9j\u00e0" in text,
    "rev32": lambda text: "\uff32\uff25\uff36" in text,
    "\uff44\uff45\uff50\uff4c\uff4f\uff59\uff4d": lambda text: "deployment" in text,
    "flight": lambda text: "\ufb02ight" in text,
    "I\u015eIKLI": lambda text: "\u0131\u015f\u0131kl\u0131" in text,
    "isikli": lambda text: "\u0131\u015f\u0131kl\u0131" in text,
    "izmir": lambda text: "\u0130zmir" in text,
    "\u30d1\u30f3\u30c0": lambda text: "\uff8a\uff9f\uff9d\uff80\uff9e" in text,
    "gr\u00f6\u00dfe": lambda text: "GR\u00d6SSE" in text,
    "ma\u00dfe": lambda text: "MA\u1e9eE" in text,
    "masse": lambda text: "MA\u1e9eE" in text,
    "\ud55c": lambda text: "\u1112\u1161\u11ab" in text,
    "deploy": lambda text: "deploy" in text,
    "deploym": lambda text: "deployment" in text,
    "7 1": lambda text: "7.1" in text,
    "\u5931\u8d25": lambda text: "\u5931\u8d25" in text,
    "\u8d25\u529f": lambda text: False,
    "don": lambda text: "don't" in text,
    "x" * 33: lambda text: "x" * 40 in text,
    "often rarely": lambda text: "rarely" in text,
    "rarely, OFTEN!": lambda text: "rarely" in text,
    "often nowhere": lambda text: False,
    "nowhere": lambda text: False,
    "often": lambda text: True,
    '"often" AND *': lambda text: False,
    "'; --": lambda text: False,
    "": lambda text: False,
}


@pytest.fixture
async def inbox(store: Store) -> Store:
    """Many messages to bob in all states and priorities, and as many of the same words to cid."""
    draw = random.Random(1)
    await stored(store, session(), ANN, BOB, CID, TALK)
    async with store.begin_write() as tx:
        for number in range(MESSAGES):
            rare = draw.choice(RARE) if draw.random() < 0.2 else ""
            text = f"Often, {rare} {'rarely' if number % 97 == 96 else 'seldom'}"
            for who in (BOB, CID):
                row = message(f"{who.name}{number}", to=TALK, sender=ANN, content=text)
                await tx.messages.add(replace(row, priority=draw.choice(list(Priority))), [(who.id, False)])
        names = [MessageId(f"bob{number}") for number in range(MESSAGES)]
        await tx.deliveries.mark_handled(BOB.id, draw.sample(names, 100), at(1))
        await tx.deliveries.lease(BOB.id, draw.sample(names, 50), at(9), now=at(1))
    return store


async def pages(store: Store, words: str | None, *, urgent: bool, states: Sequence[DeliveryState]) -> list[Delivery]:
    """Return all that is found, page by page."""
    found: list[Delivery] = []
    while True:
        async with store.begin_read() as tx:
            after = found[-1].message.id if found else None
            page = await tx.deliveries.fetch_inbox(
                BOB.id, states=states, words=words, urgent_first=urgent, after=after, limit=23
            )
        found += page
        if len(page) < 23:
            return found


@pytest.mark.spec("WAKE-30", "WAKE-33")
@pytest.mark.parametrize("urgent", [True, False])
@pytest.mark.parametrize("indexed", [0, MESSAGES, 2 * MESSAGES])
async def test_a_search_finds_what_the_text_has_and_nothing_else_whether_or_not_it_is_in_the_index(
    inbox: Store, urgent: bool, indexed: int
) -> None:
    done = 0
    while done < indexed:
        async with inbox.begin_write() as tx:
            done += await tx.messages.index_next(limit=min(300, indexed - done))
    for states in ([DeliveryState.UNREAD], list(DeliveryState)):
        everything = await pages(inbox, None, urgent=urgent, states=states)
        assert len({each.message.id for each in everything}) == len(everything)
        for words, has in QUERIES.items():
            found = await pages(inbox, words, urgent=urgent, states=states)
            wanted = [each.message.id for each in everything if has(each.message.content)]
            assert [each.message.id for each in found] == wanted, words


@pytest.mark.spec("WAKE-33")
async def test_the_index_takes_each_message_once_and_forgets_what_is_retired(inbox: Store) -> None:
    async with inbox.begin_write() as tx:
        assert await tx.messages.index_next(limit=2 * MESSAGES + 1) == 2 * MESSAGES
        assert await tx.messages.index_next(limit=10) == 0
        await tx.messages.add(message("last", to=TALK, sender=ANN, content="novel"), [(BOB.id, False)])
        assert await tx.messages.index_next(limit=10) == 1
        assert [each.message.id for each in await tx.deliveries.fetch_inbox(BOB.id, words="novel")] == ["last"]
        await tx.deliveries.mark_handled(BOB.id, [MessageId("last")], at(2))
        assert await tx.deliveries.delete_handled(at(3), limit=2 * MESSAGES) == 101
        every = await tx.deliveries.fetch_inbox(BOB.id, states=list(DeliveryState), words="often", limit=MESSAGES)
        assert len(every) == MESSAGES - 100
        assert await tx.messages.index_next(limit=10) == 0
