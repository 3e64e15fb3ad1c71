"""What a model or a tool has said and a program passes on in a user's turn, as frameworks with several agents do."""

import html
import json
import unicodedata
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from textwrap import wrap
from typing import Any
from urllib.parse import quote

import pytest

from circadia.clock import SystemClock
from circadia.records.bank import Trust
from circadia.testing.clock import ManualClock
from tests.gateway.bound_agent import CHAT, MESSAGES, RESPONSES, asking, bound, chat, token_of
from tests.interaction.live import live

DRAFT = "Aunt Hedwig turns eighty on Friday, and all of Lund sings."
TASK = "Write a poem on aunt Hedwig, who turns eighty on Friday"
LOOKED_UP = "Hedwig Lund, born 1946, of 12 Harbour Street"


def calling(tool: str, **arguments: str) -> dict[str, Any]:
    """Return a chat completion that calls a tool."""
    function = {"name": tool, "arguments": json.dumps(arguments)}
    message = {"role": "assistant", "content": None, "tool_calls": [{"id": "call_1", "function": function}]}
    return {"model": "mock-1", "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]}


@pytest.mark.spec("MEM-14")
@pytest.mark.parametrize("path", [CHAT, RESPONSES, MESSAGES])
async def test_an_answer_that_is_passed_on_as_a_users_turn_is_kept_once_as_its_agents(
    tmp_path: Path, path: str
) -> None:
    async with bound(tmp_path, inject=False) as ann:
        ann.at.upstream.next(text=DRAFT)
        await ann.say(asking(path, "Write of aunt Hedwig", stream=False), path=path)
        ann.at.upstream.next(text="Make it rhyme.")
        await ann.say(asking(path, DRAFT, stream=True), path=path)
        assert await ann.texts() == [("user", "Write of aunt Hedwig"), ("ann", DRAFT), ("ann", "Make it rhyme.")]


@pytest.mark.spec("MEM-14")
async def test_the_answer_of_another_agent_is_not_a_persons_word_in_a_bank_that_both_use_or_in_its_own(
    tmp_path: Path,
) -> None:
    others = {"bob": {"bank": "memory", "inject": False}, "cem": {"bank": "alone", "inject": False}}
    async with bound(tmp_path, others=others, inject=False) as ann:
        ann.at.upstream.next(text=DRAFT)
        await ann.say(chat("Write of aunt Hedwig"))
        for name in ("bob", "cem"):
            ann.at.upstream.next(text=f"{name} likes it")
            await ann.say(chat(DRAFT), token=token_of(name))
        assert await ann.texts() == [("user", "Write of aunt Hedwig"), ("ann", DRAFT), ("bob", "bob likes it")]
        (passed, _) = await ann.episodes("alone")
    assert (passed.speaker, passed.text, passed.trust) == ("ann", DRAFT, Trust.AGENT)


@pytest.mark.spec("MEM-14")
async def test_what_was_said_for_one_end_user_tells_nothing_of_another(tmp_path: Path) -> None:
    async with bound(tmp_path, inject=False) as ann:
        for user in ("eve", "mallory"):
            ann.at.upstream.next(text=DRAFT)
            await ann.say({**chat("Write of aunt Hedwig" if user == "eve" else DRAFT), "user": user})
        said = [(each.speaker, each.text, each.trust) for each in await ann.episodes()]
    assert ("mallory", DRAFT, Trust.PERSON) in said


@pytest.mark.spec("MEM-14")
async def test_what_a_model_tells_an_agent_that_is_its_tool_is_the_models_word(tmp_path: Path) -> None:
    async with bound(tmp_path, inject=False) as ann:
        ann.at.upstream.next(body=calling("poet", input=TASK))
        await ann.say(chat("A poem for my aunt"))
        ann.at.upstream.next(text="Here it is")
        await ann.say(chat(TASK))
        kept = [(each.speaker, each.text, each.trust) for each in await ann.episodes()]
    assert kept == [
        ("user", "A poem for my aunt", Trust.PERSON), ("ann", TASK, Trust.AGENT), ("ann", "Here it is", Trust.AGENT),
    ]  # fmt: skip


@pytest.mark.spec("MEM-14")
async def test_a_tools_result_that_is_passed_on_as_a_users_turn_is_a_tools_result(tmp_path: Path) -> None:
    async with bound(tmp_path, inject=False) as ann:
        call = calling("look_up", name="Hedwig")["choices"][0]["message"]
        history = [{"role": "user", "content": "Who is Hedwig?"}, call]
        result = {"role": "tool", "tool_call_id": "call_1", "content": LOOKED_UP}
        ann.at.upstream.next(text="She is my aunt")
        await ann.say({"model": "mock-1", "messages": [*history, result]})
        ann.at.upstream.next(text="She lives by the harbour")
        await ann.say(chat(LOOKED_UP))
        assert await ann.texts() == [("ann", "She is my aunt"), ("ann", "She lives by the harbour")]


@pytest.mark.spec("MEM-14")
async def test_a_tools_text_keeps_its_speaker_while_its_conversation_goes_on_and_a_day(tmp_path: Path) -> None:
    call = calling("look_up", name="Hedwig")["choices"][0]["message"]
    result = {"role": "tool", "tool_call_id": "call_1", "content": LOOKED_UP}
    history: list[object] = [{"role": "user", "content": "Who is Hedwig?"}, call, result]

    async def pass_on(hours: float, *, go_on: bool) -> Trust:
        """Pass the text on in a conversation of its own, so much later; before, perhaps, go on with the first."""
        clock = ManualClock(SystemClock().now() + timedelta(hours=hours))
        async with bound(tmp_path, inject=False, sections={"clock": clock}) as ann:
            if go_on:
                ann.at.upstream.next(text="ok")
                await ann.say({"model": "mock-1", "messages": history})
                history.extend([{"role": "assistant", "content": "ok"}, {"role": "user", "content": f"And {hours}?"}])
            await ann.say(chat(f"Mail of {hours}: {LOOKED_UP}"))
            said = [each for each in await ann.episodes() if f"Mail of {hours}" in each.text]
        return said[0].trust if said else Trust.TOOL

    assert await pass_on(0, go_on=True) is Trust.TOOL
    assert await pass_on(70 / 60, go_on=False) is Trust.TOOL
    for hours in (13, 26, 39, 52):
        assert await pass_on(hours, go_on=True) is Trust.TOOL
    assert await pass_on(52 + 23, go_on=False) is Trust.TOOL
    assert await pass_on(52 + 25, go_on=False) is Trust.PERSON


@pytest.mark.spec("MEM-14")
async def test_what_a_person_said_first_stays_the_persons_whoever_repeats_it(tmp_path: Path) -> None:
    async with bound(tmp_path, inject=False) as ann:
        ann.at.upstream.next(body=calling("poet", input=TASK))
        await ann.say(chat(TASK))
        ann.at.upstream.next(text="Once more")
        await ann.say(chat("Hello", "Good day", TASK))
        kept = [(each.speaker, each.text, each.trust) for each in await ann.episodes()]
    assert kept == [
        ("user", TASK, Trust.PERSON), ("user", TASK, Trust.PERSON), ("ann", "Once more", Trust.AGENT),
    ]  # fmt: skip


@pytest.mark.spec("MEM-14")
async def test_a_person_may_say_the_same_few_words_as_the_model_and_a_caller_knows_best_who_speaks(
    tmp_path: Path,
) -> None:
    async with bound(tmp_path, inject=False) as ann:
        ann.at.upstream.next(text="Tomorrow at noon.")
        await ann.say(chat("When do we sail?"))
        ann.at.upstream.next(text=DRAFT)
        await ann.say(chat("Tomorrow at noon."))
        await ann.say(chat(DRAFT), headers={"x-circadia-trust": "person"})
        kept = [(each.speaker, each.text, each.trust) for each in await ann.episodes()][2:]
    assert kept == [
        ("user", "Tomorrow at noon.", Trust.PERSON), ("ann", DRAFT, Trust.AGENT), ("user", DRAFT, Trust.PERSON),
        ("ann", DRAFT, Trust.AGENT),
    ]  # fmt: skip


@pytest.mark.spec("MEM-14")
async def test_each_speaker_of_a_chat_has_the_name_that_the_request_gives(tmp_path: Path) -> None:
    said = [("user", "Who comes along?"), ("lena", "I do"), (None, "And me")]
    messages = [{"role": "user", "content": text, **({"name": name} if name else {})} for name, text in said]
    async with bound(tmp_path, inject=False) as ann:
        ann.at.upstream.next(text="Three of us then")
        await ann.say({"model": "mock-1", "user": "eve", "messages": messages})
        assert await ann.texts() == [
            ("eve", "Who comes along?"), ("lena", "I do"), ("eve", "And me"), ("ann", "Three of us then"),
        ]  # fmt: skip


def nested(text: str) -> str:
    return json.dumps({"input": json.dumps({"result": text})})


def without_accents(text: str) -> str:
    return "".join(each for each in unicodedata.normalize("NFD", text) if not unicodedata.combining(each))


def in_full_width(text: str) -> str:
    return "".join(chr(ord(each) + 0xFEE0) if "!" <= each <= "~" else each for each in text)


FORMS: dict[str, Callable[[str], str]] = {
    "after a few words": lambda text: f"The previous agent said: {text}",
    "quoted": lambda text: f"«{text}»",
    "in Markdown": lambda text: "\n".join(f"> *{line}*" for line in text.split(" ")),
    "in JSON": lambda text: json.dumps({"content": text}),
    "in JSON in JSON": nested,
    "in capitals": str.upper,
    "in HTML": lambda text: (
        html.escape(f"«{text}»").encode("ascii", "xmlcharrefreplace").decode().replace(" ", "&nbsp;")
    ),
    "in an address": quote,
    "in a program's string": lambda text: text.encode("unicode_escape").decode(),
    "without accents": without_accents,
    "with accents apart": lambda text: unicodedata.normalize("NFD", text),
    "in full width": in_full_width,
    "with another word": lambda text: text.replace(text.split()[1], "otherwise", 1),
    "with more spaces": lambda text: text.replace(" ", "  \n"),
}
SAID = (
    "Hedwig Lund, born 1946, of 12 Harbour Street",
    "Die Straße zum Hafen ist bis Ende März gesperrt; nur der Bus fährt.",
    "Ο Νίκος ήρθε στο λιμάνι το πρωί και έφυγε με το πλοίο αμέσως μετά.",
    "Катер отходит в девять утра, а билеты продают только на пристани.",
    "渡轮每天早上 九点 从旧港口出发，船票只能在码头的窗口买到，星期天不开。",
    "المركب يغادر الميناء القديم في التاسعة صباحا كل يوم ما عدا الأحد",
)


@pytest.mark.spec("MEM-14")
@pytest.mark.parametrize("form", FORMS)
async def test_what_a_tool_or_a_model_said_is_no_persons_word_in_whatever_form_a_program_hands_it_on(
    tmp_path: Path, form: str
) -> None:
    async with bound(tmp_path, inject=False) as ann:
        for number, text in enumerate(SAID):
            user = str(number)
            call = calling("look_up", name="x")["choices"][0]["message"]
            result = {"role": "tool", "tool_call_id": "call_1", "content": text}
            ann.at.upstream.next(text="Yes.", times=2)
            history = [{"role": "user", "content": "Go"}, call, result]
            await ann.say({"model": "mock-1", "user": user, "messages": history})
            await ann.say(chat(FORMS[form](text), user=user))
            ann.at.upstream.next(text=text)
            await ann.say(chat("Write it down", user=f"{user} of the model"))
            await ann.say(chat(FORMS[form](text), user=f"{user} of the model"))
        people = {each.text for each in await ann.episodes() if each.trust is Trust.PERSON}
    assert people == {"Write it down"}


@pytest.mark.spec("MEM-14")
async def test_a_turn_is_its_persons_though_it_quotes_a_model_or_is_about_the_same(tmp_path: Path) -> None:
    said = (
        f"You wrote: {DRAFT[:30]} I do not think that she would like to be reminded of how old she is on that day.",
        "Aunt Hedwig would be glad if all of us came to her on Friday, and sang something nice for her in Lund.",
    )
    async with bound(tmp_path, inject=False) as ann:
        ann.at.upstream.next(text=DRAFT)
        await ann.say(chat("Write of aunt Hedwig"))
        for each in said:
            await ann.say(chat(each))
        people = [each.text for each in await ann.episodes() if each.trust is Trust.PERSON]
    assert people == ["Write of aunt Hedwig", *said]


@pytest.mark.spec("MEM-14")
async def test_a_turn_that_is_put_together_of_a_tools_and_a_models_words_is_trusted_as_the_tools(
    tmp_path: Path,
) -> None:
    async with bound(tmp_path, inject=False) as ann:
        call = calling("look_up", name="Hedwig")["choices"][0]["message"]
        result = {"role": "tool", "tool_call_id": "call_1", "content": LOOKED_UP}
        ann.at.upstream.next(text=DRAFT)
        await ann.say({"model": "mock-1", "messages": [{"role": "user", "content": "Go"}, call, result]})
        ann.at.upstream.next(text="Noted.")
        await ann.say(chat(f"Context: {DRAFT}\n\nFacts: {LOOKED_UP}"))
        (passed,) = [each for each in await ann.episodes() if "Facts" in each.text]
    assert passed.trust is Trust.TOOL


@pytest.mark.spec("MEM-14")
async def test_what_was_said_at_one_server_is_known_at_another_on_its_database_and_after_a_restart(
    tmp_path: Path, postgres_url: str
) -> None:
    sections: dict[str, Any] = {"server": {"database_url": postgres_url}}
    async with live(tmp_path / "here", **sections) as here, live(tmp_path / "there", **sections) as there:
        token = await here.agent(bank="memory", inject=False)
        here.upstream.next(text=DRAFT)
        await here.called(token, chat("Write of aunt Hedwig"))
        await here.server.exchanges.flush()
        await there.called(token, chat(f"Make it rhyme: {DRAFT}"))
        await there.server.exchanges.flush()
    async with live(tmp_path / "here", **sections) as again:
        await again.called(token, chat(f"And shorter: {DRAFT}"))
        await again.server.exchanges.flush()
        _, found = await again.rest("GET", "/banks/memory/episodes")
        people = [each["text"] for each in found["episodes"] if each["trust"] == "person"]
    assert people == ["Write of aunt Hedwig"]


COMPACT = "Your task is to create a detailed summary of the conversation so far, with its decisions."
SUMMARY = "This session is being continued from a previous conversation that ran out of context. Ann sails to Lund."


@pytest.mark.spec("MEM-14")
@pytest.mark.parametrize("path", [CHAT, RESPONSES, MESSAGES])
async def test_a_summary_that_stands_for_what_was_said_before_is_nobodys_word(tmp_path: Path, path: str) -> None:
    def body(*said: str | list[str]) -> dict[str, Any]:
        items: list[dict[str, Any]] = []
        kind = "input_text" if path == RESPONSES else "text"
        for at, text in enumerate(said):
            parts = [{"type": kind, "text": each} for each in text] if isinstance(text, list) else text
            items.append({"role": ("user", "assistant")[at % 2], "content": parts})
        return {"model": "mock-1", "max_tokens": 50, "input" if path == RESPONSES else "messages": items}

    async with bound(tmp_path) as ann:
        ann.at.upstream.next(text="Lund it is")
        await ann.say(body("I sail to Lund on Friday"), path=path)
        ann.at.upstream.next(text="<summary>Ann sails to Lund.</summary>")
        await ann.say(body("I sail to Lund on Friday", "Lund it is", COMPACT), path=path)
        assert "<circadia-memory" not in json.dumps(ann.sent)
        ann.at.upstream.next(text="Take the blue boat")
        await ann.say(body([SUMMARY, "Which boat do I take to Lund?"]), path=path)
        assert await ann.texts() == [
            ("user", "I sail to Lund on Friday"), ("ann", "Lund it is"),
            ("user", "Which boat do I take to Lund?"), ("ann", "Take the blue boat"),
        ]  # fmt: skip


@pytest.mark.spec("MEM-14")
async def test_what_a_framework_says_of_an_answer_in_a_wrong_form_is_no_persons_word(tmp_path: Path) -> None:
    again = "Validation feedback:\n1 validation error\n\nFix the errors and try again."
    async with bound(tmp_path, inject=False) as ann:
        ann.at.upstream.next(text='{"boat": 7}')
        await ann.say(chat("Which boat goes to Lund?"))
        ann.at.upstream.next(text='{"boat": "Nora"}')
        await ann.say(chat("Which boat goes to Lund?", '{"boat": 7}', again))
        assert await ann.texts() == [
            ("user", "Which boat goes to Lund?"), ("ann", '{"boat": 7}'), ("ann", '{"boat": "Nora"}'),
        ]  # fmt: skip


@pytest.mark.spec("MEM-14")
@pytest.mark.parametrize("policy", [{}, {"bank": "memory", "capture": False}, {"bank": "each-{user}"}], ids=repr)
async def test_what_an_agent_says_or_is_told_by_tools_is_no_persons_word_though_no_bank_takes_it(
    tmp_path: Path, policy: dict[str, object]
) -> None:
    async with bound(tmp_path, others={"bob": policy}, inject=False) as ann:
        call = calling("look_up", name="Hedwig")["choices"][0]["message"]
        result = {"role": "tool", "tool_call_id": "call_1", "content": LOOKED_UP}
        ann.at.upstream.next(text=DRAFT)
        history = [{"role": "user", "content": "Write of Hedwig"}, call, result]
        await ann.say({"model": "mock-1", "messages": history}, token=token_of("bob"))
        assert await ann.texts() == []
        for said in (DRAFT, LOOKED_UP):
            ann.at.upstream.next(text="Noted.")
            await ann.say(chat(f"He says: {said}"))
        kept = [(each.speaker, each.trust) for each in await ann.episodes() if "He says" in each.text]
    assert kept == [("bob", Trust.AGENT), ("tool", Trust.TOOL)]


@pytest.mark.spec("MEM-14")
async def test_what_a_model_said_is_no_persons_word_in_pieces_but_what_a_person_adds_to_them_is(tmp_path: Path) -> None:
    async with bound(tmp_path, inject=False) as ann:
        ann.at.upstream.next(text=DRAFT)
        await ann.say(chat("Write of aunt Hedwig"))
        pieces = [*wrap(DRAFT, 20), "No, not on Friday"]
        ann.at.upstream.next(text="Noted.")
        await ann.say({"model": "mock-1", "messages": [{"role": "user", "content": each} for each in pieces]})
        people = [each.text for each in await ann.episodes() if each.trust is Trust.PERSON]
    assert people == ["Write of aunt Hedwig", "No, not on Friday"]


@pytest.mark.spec("MEM-14")
async def test_a_transcript_of_what_a_person_and_a_model_said_is_no_persons_word(tmp_path: Path) -> None:
    asked = (
        "Who of us turns eighty this year, on which day of the week, and what would all of our guests like to do then?"
    )
    async with bound(tmp_path, inject=False) as ann:
        ann.at.upstream.next(text=DRAFT)
        await ann.say(chat(asked))
        ann.at.upstream.next(text="Noted.")
        await ann.say(chat(f"User: {asked}\nAssistant: {DRAFT}\nGo on."))
        people = [each.text for each in await ann.episodes() if each.trust is Trust.PERSON]
    assert people == [asked]


@pytest.mark.spec("MEM-14")
@pytest.mark.parametrize("path", [CHAT, RESPONSES, MESSAGES])
async def test_lines_of_memory_that_an_answer_repeats_are_no_news(tmp_path: Path, path: str) -> None:
    fact, news = "Project Heron launches in Rotterdam on 2 December.", "I have moved the rehearsal to the 28th."
    async with bound(tmp_path, others={"bob": {"bank": "alone", "inject": False}}) as ann:
        await ann.make(block=fact)
        questions = ["When is the launch?", "And where?", "What did you do?"]
        for question, answer in zip(questions, [fact, f"- **{fact}**", f'{fact}\n\n{news} "a\\nb"'], strict=True):
            ann.at.upstream.next(text=answer)
            await ann.say(asking(path, question, stream=False), path=path)
            assert fact in json.dumps(ann.sent)
        said = [("user", question) for question in questions]
        assert await ann.texts() == [*said, ("ann", f'{news} "a\\nb"')]
        bank = await ann.bank()
        assert bank is not None
        assert bank.skipped == {"repeats_memory": 2}
        await ann.say(chat(fact), token=token_of("bob"))
        (passed, _) = await ann.episodes("alone")
        assert (passed.speaker, passed.trust) == ("ann", Trust.AGENT)


@pytest.mark.spec("MEM-14")
async def test_what_an_agent_says_beside_its_memory_is_kept_as_it_is(tmp_path: Path) -> None:
    said = [
        "Heron launches on 2 December, so the rehearsal in Ghent and the press visit are both a week before that.",
        "Project Heron launches in Rotterdam on 9 December.",
        "Project Heron launches in Rotterdam on 2 December 2027.",
        "On 2 December.",
    ]
    async with bound(tmp_path) as ann:
        await ann.make(block="Project Heron launches in Rotterdam on 2 December.")
        for text in said:
            ann.at.upstream.next(text=text)
            await ann.say(chat(f"What is new? {len(text)}"))
            assert ("ann", text) in await ann.texts(), "another date is news"
