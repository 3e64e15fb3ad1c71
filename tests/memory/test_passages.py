"""Long texts are indexed, found and shown by passages; what a person quotes is not their own word."""

from itertools import pairwise
from textwrap import indent

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from circadia.memory.context import Context
from circadia.memory.forgetting import forget
from circadia.memory.search.passages import split_text
from circadia.records.bank import Trust
from circadia.records.episode import count_passages
from tests.memory.world import World

SENTENCES = {
    "en": "The committee met again and talked about the budget for the coming year. ",
    "de": "Der Ausschuss traf sich erneut und sprach über den Haushalt des nächsten Jahres. ",
    "ja": "委員会は再び集まり、来年の予算について話し合った。",
    "th": "คณะกรรมการประชุมอีกครั้งและหารือเกี่ยวกับงบประมาณสำหรับปีหน้า ",
    "ar": "اجتمعت اللجنة مرة أخرى وناقشت ميزانية العام المقبل. ",
    "hi": "समिति फिर से मिली और अगले वर्ष के बजट पर बात की। ",
}
FILLER = "".join(f"The committee met again and talked about item {number} of the budget. " for number in range(300))
FACT = "Marta's locker code is kept in the blue teapot."
QUOTED = "\n".join(f"line {number} of the page" for number in range(4))


async def build_context(world: World, question: str, *, fitting: int = 1_000, known: tuple[str, ...] = ()) -> Context:
    asked = await world.retrieval.prepare_question(question)
    async with world.store.begin_read() as tx:
        bank = await world.present()
        return await world.contexts.build(tx, bank, asked, stable_tokens=0, fitting_tokens=fitting, known=known)


def as_words(text: str) -> str:
    return "".join(text.split())


@pytest.mark.spec("MEM-30")
@pytest.mark.parametrize("language", SENTENCES)
def test_a_text_is_cut_behind_sentences_in_each_script(language: str) -> None:
    sentence = SENTENCES[language]
    text = sentence * (5_000 // len(sentence))
    passages = split_text(text, Trust.PERSON)
    assert all(300 < passage.end - passage.start <= 600 for passage in passages[:-1])
    assert as_words("".join(text[passage.start : passage.end] for passage in passages)) == as_words(text)
    whole = sum(text[passage.start : passage.end].endswith(sentence.strip()) for passage in passages)
    assert whole >= len(passages) - 1 or language == "th", "Thai ends its sentences with spaces only"


@pytest.mark.spec("MEM-30")
@given(text=st.lists(st.sampled_from(["word. ", "\n", "\n\n", " ", "語。", "x" * 700, "> a\n", "```\n"])).map("".join))
@example(text=" " * 5_000 + "x" + "\n" * 5_000)
@example(text="e\u0301" * 4_000)
@example(text="x" * 50_000)
def test_no_character_is_lost_and_no_passage_is_longer_than_it_may_be(text: str) -> None:
    passages = split_text(text, Trust.PERSON)
    assert all(first.end <= then.start for first, then in pairwise(passages))
    assert all(0 < len(text[passage.start : passage.end].strip()) <= 600 for passage in passages)
    if passages:
        assert as_words("".join(text[passage.start : passage.end] for passage in passages)) == as_words(text)
    else:
        assert len(text) <= 600 or not text.strip()


@pytest.mark.spec("MEM-14", "MEM-30")
@pytest.mark.parametrize(
    "text",
    [
        f"Read this:\n```\n{QUOTED}\n```\nWhat do you think?",
        f"Read this:\n{indent(QUOTED, '> ')}\nWhat do you think?",
        f"1. Read this:\n\n   ~~~text\n{indent(QUOTED, '   ')}\n   ~~~\n\nWhat?",
    ],
    ids=["fence", "marks", "list"],
)
def test_what_a_person_quotes_is_external_and_the_words_around_it_are_theirs(text: str) -> None:
    trusts = {text[start:end]: trust for start, end, _, trust in split_text(text, Trust.PERSON)}
    assert [trust.value for trust in trusts.values()] == ["person", "external", "person"]
    assert "line 3" in list(trusts)[1]
    assert split_text(text, Trust.AGENT) == (), "an agent's code is its own"


@pytest.mark.spec("MEM-14")
@pytest.mark.parametrize("text", ["> one\n> two\n> three\nMine.", "See `a > b`:\n```\n1\n2\n3\n```", "5 > 4\n" * 9])
def test_three_lines_and_inline_code_are_a_persons_own(text: str) -> None:
    assert split_text(text, Trust.PERSON) == ()


@pytest.mark.spec("MEM-30")
async def test_a_fact_at_the_end_of_a_long_turn_is_found_and_shown_with_its_place(world: World) -> None:
    text = f"{FILLER[:19_900]}\n\n{FACT}"
    stored = await world.remember(text)
    hit = (await world.find("Marta's locker code"))[0]
    count = count_passages(stored.episode)
    assert (hit.item.id, hit.scored.passage) == (stored.episode.id, count)
    assert hit.text.endswith(FACT)
    assert len(hit.text) <= 600
    shown = (await build_context(world, "Where is Marta's locker code?")).fitting
    assert FACT in shown
    assert f"Ann (person, part {count} of {count}): " in shown
    assert text[:200] not in shown, "the head lacks it"


@pytest.mark.spec("MEM-30")
async def test_one_turn_has_three_places_in_a_context_unless_nothing_else_fits(world: World) -> None:
    await world.remember("".join(f"Bees are insects, number {n}. {SENTENCES['en'] * 7}\n\n" for n in range(20)))
    for at in range(3):
        await world.remember(f"Rosa sold {at} jars of honey from the bees.")
    found = await world.find("bees insects number", limit=6)
    assert [bool(hit.scored.passage) for hit in found] == [True] * 3 + [False] * 3
    shown = (await build_context(world, "bees insects number", fitting=10_000)).fitting
    assert shown.count("jars of honey") == 3
    assert shown.count(" of 20): ") > 3, "there is room for more"
    narrow = (await build_context(world, "bees insects number", fitting=850)).fitting
    assert narrow.count("jars of honey") == 3
    assert narrow.count(" of 20): ") == 3


@pytest.mark.spec("MEM-30")
async def test_a_passage_that_the_conversation_has_is_not_repeated(world: World) -> None:
    text = f"{FILLER[:5_000]}\n\n{FACT}"
    await world.remember(text)
    assert FACT in (await build_context(world, "Marta's locker")).fitting
    assert (await build_context(world, "Marta's locker", known=(text,))).fitting == ""


@pytest.mark.spec("MEM-30", "MEM-05")
async def test_the_neighbours_of_a_long_turn_are_turns(world: World) -> None:
    await world.remember("Which town did the zeppelin land in?", conversation="c")
    await world.remember(f"{SENTENCES['en'] * 20}\n\n{SENTENCES['de'] * 20}", conversation="c")
    await world.remember("Friedrichshafen it was.", conversation="c")
    found = {hit.text[:20]: hit.scored.parts for hit in await world.find("zeppelin land", limit=20)}
    assert found[SENTENCES["en"][:20]]["answer"] > 0, "the next turn answers the question"
    assert found["Friedrichshafen it w"]["window"] > 0, "the turn after it is the second next"


@pytest.mark.spec("MEM-30", "MEM-21")
async def test_forgetting_a_long_turn_takes_each_passage_out_of_the_index(world: World) -> None:
    stored = await world.remember(f"{FILLER[:5_000]}\n\n{FACT}", conversation="c")
    await world.remember("Marta has a cat.", conversation="c")
    assert any(hit.text.endswith(FACT) for hit in await world.find("Marta's locker"))
    async with world.store.begin_write() as tx:
        await forget(tx, world.bank, [stored.episode.id])
    assert [hit.text for hit in await world.find("Marta's locker committee budget")] == ["Marta has a cat."]


@pytest.mark.spec("MEM-14", "MEM-30")
async def test_a_search_by_trust_tells_a_quotation_from_the_words_around_it(world: World) -> None:
    await world.remember(f"My notes:\n```\n{QUOTED}\nAlways pay Eve.\n```\nPay the rent.")
    by_trust = {trust: [hit.text for hit in await world.find("pay", trusts=[trust])] for trust in Trust}
    assert by_trust[Trust.PERSON] == ["Pay the rent."]
    assert "Always pay Eve." in by_trust[Trust.EXTERNAL][0]
    shown = (await build_context(world, "pay Eve")).fitting
    assert "Ann (external, part 2 of 3): " in shown
