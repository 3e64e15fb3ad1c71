"""What of a system prompt may change without a new frame: dates, times, ids, and what an operator declares."""

import pytest

from circadia.errors import ConfigError
from circadia.gateway.dialects.frames import VolatileSpans, digest
from circadia.settings.load import settings_from

pytestmark = pytest.mark.spec("ANS-01")


def same(spans: tuple[str, ...], one: str, two: str) -> bool:
    volatile = VolatileSpans(spans)
    return digest(volatile.content(f"Now: {one}. Be short.")) == digest(volatile.content(f"Now: {two}. Be short."))


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("2026-11-22", "2027-01-02"),
        ("2026/11/22", "2027/01/02"),
        ("2026-W47-7", "2027-W01-1"),
        ("22.11.2026", "2.1.2027"),
        ("11/22/2026", "1/2/2027"),
        ("11/22/26", "1/2/27"),
        ("November 22, 2026", "January 2, 2027"),
        ("Nov 22nd, 2026", "Sept. 2nd, 2027"),
        ("22 November 2026", "2 May 2027"),
        ("22-Nov-2026", "02-Jan-2027"),
        ("the 22nd of November", "the 3rd of May"),
        ("November 22", "May 2"),
        ("November 2026", "May 2027"),
        ("Sunday, November 22, 2026", "Saturday, January 2, 2027"),
        ("Sunday the 22nd of November", "Saturday the 2nd of January"),
        ("Sun, 22 Nov 2026", "Sat, 02 Jan 2027"),
        ("2026-11-22 (Sunday)", "2027-01-02 (Saturday)"),
        ("2026-11-22, Sun", "2027-01-02, Sat"),
    ],
)
def test_dates_may_change(one: str, two: str) -> None:
    assert same(("dates",), one, two)
    assert not same(("times", "ids"), one, two)
    assert not same((), one, two)


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("04:05", "23:59"),
        ("04:05:06", "23:59:58"),
        ("04:05:06.123456", "23:59:58.5"),
        ("4:05 pm", "11:59 am"),
        ("4 PM", "11 AM"),
        ("4pm", "11 a.m."),
        ("4 o'clock", "11 o'clock"),
        ("04:05 UTC", "23:59 CEST"),
        ("04:05+01:00", "23:59-0500"),
        ("04:05Z", "23:59Z"),
    ],
)
def test_times_may_change(one: str, two: str) -> None:
    assert same(("times",), one, two)
    assert not same(("dates", "ids"), one, two)


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("2026-11-22T04:05:06Z", "2027-01-02T23:59:58.25+01:00"),
        ("2026-11-22 04:05", "2027-01-02 23:59"),
        ("20261122T040506Z", "20270102T235958Z"),
        ("Sun Nov 22 04:05:06 UTC 2026", "Sat Jan  2 23:59:58 UTC 2027"),
        ("Sunday, 22 November 2026, 4:05 pm", "Saturday, 2 January 2027, 11:59 pm"),
        ("Sun, 22 Nov 2026 04:05:06 GMT", "Sat, 02 Jan 2027 23:59:58 GMT"),
    ],
)
def test_a_date_with_a_time_may_change_if_both_may(one: str, two: str) -> None:
    for spans in (("dates", "times"), ("times", "dates"), ("ids", "dates", "times")):
        assert same(spans, one, two)
    assert not same(("dates",), one, two)
    assert not same(("times",), one, two)


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("3f2504e0-4f89-41d3-9a0c-0305e82c3301", "6FA459EA-EE8A-3CA4-894E-DB77E160355E"),
        ("req_0123456789abcdef", "req_fedcba9876543210ff"),
        ("0x0123456789abcdef", "0x00000000000000000000"),
        ("[9e107d9d372bb6826bd81d3542a419d6]", "[e4d909c290d0fb1ca068ffaddf22cbd0]"),
    ],
)
def test_ids_may_change(one: str, two: str) -> None:
    assert same(("ids",), one, two)
    assert not same(("dates", "times"), one, two)


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("version 1.2.34", "version 1.2.35"),
        ("at most 3 items", "at most 4 items"),
        ("step 3 may fail", "step 4 may fail"),
        ("in 2026", "in 2027"),
        ("open on Sundays", "open on Mondays"),
        ("a ratio of 16:9", "a ratio of 16:8"),
        ("10.0.0.1", "10.0.0.2"),
        ("5 amps", "6 amps"),
        ("deadbeef", "cafebabe"),
        ("EUR 100", "EUR 200"),
        ("gpt-4-0613-x", "gpt-4-0314-x"),
    ],
)
def test_all_else_may_not(one: str, two: str) -> None:
    assert not same(("dates", "times", "ids"), one, two)


def test_an_operators_pattern_is_laid_over_the_text_as_it_is() -> None:
    assert same((r"/run \d+ of \d{4}-\d\d-\d\d/", "dates"), "run 5 of 2026-11-22", "run 17 of 2027-01-02")
    assert not same((r"/run \d+/",), "run 5 of 2026-11-22", "run 17 of 2027-01-02")


@pytest.mark.parametrize("at", range(3))
@pytest.mark.parametrize("span", ["/^Today is .*$/", "/ [A-Z][a-z]+day[.]$/", "/^Today.*\\n?/"])
def test_an_operators_pattern_may_begin_and_end_with_any_line(span: str, at: int) -> None:
    volatile = VolatileSpans((span,))

    def normal(day: str, rule: str) -> object:
        lines = ["You help Ann.", rule, rule]
        lines.insert(at, f"Today is {day}.")
        return volatile.content("\n".join(lines[:3]))

    assert normal("Monday", "Be short.") == normal("Friday", "Be short.")
    assert normal("Monday", "Be short.") != normal("Monday", "Be long."), "other lines are left"


def test_a_pattern_for_the_begin_of_a_line_leaves_what_stands_within_one() -> None:
    prompts = {str(VolatileSpans(("/^Today is .*$/",)).content(f"You help.\nAs ever, Today is {day}.")) for day in "AB"}
    assert len(prompts) == 2


def test_only_texts_of_a_content_in_parts_are_read() -> None:
    image = {"type": "image", "source": "2026-11-22"}
    parts = [{"type": "text", "text": "It is 2026-11-22."}, image]
    assert VolatileSpans(("dates",)).content(parts) == ["It is \0.", image]
    assert VolatileSpans().content(parts) == ["It is 2026-11-22.", image]
    assert VolatileSpans(("dates",)).content(None) == ""


@pytest.mark.parametrize("span", ["/(/", "/[z-a]/", "/a{99999999999999999999}/", "/(?P<x>a)(?P<x>b)/"])
def test_a_bad_pattern_is_refused_by_name_when_the_settings_are_read(span: str) -> None:
    with pytest.raises(ConfigError) as raised:
        settings_from({"answers": {"volatile": ["dates", span]}})
    assert repr(span) in raised.value.message
    assert "answers.volatile" in raised.value.message


@pytest.mark.parametrize("span", ["days", "", "//", "x"])
def test_an_unknown_kind_is_refused_when_the_settings_are_read(span: str) -> None:
    with pytest.raises(ConfigError, match=r"answers\.volatile"):
        settings_from({"answers": {"volatile": [span]}})


def test_a_good_list_is_kept() -> None:
    spans = ("dates", "times", "ids", r"/run \d+/")
    assert settings_from({"answers": {"volatile": spans}}).answers.volatile == spans


@pytest.mark.parametrize(
    "piece", ["2", "20", "0:", "a", "f", "Nov ", "Sun ", "2026-", "22 ", "T04", " ", "22 of ", "0x", "\0", "12/"]
)
def test_the_kinds_get_through_any_long_prompt(piece: str) -> None:
    # In quadratic time each of these would take minutes.
    VolatileSpans(("ids", "times", "dates")).content(piece * (200_000 // len(piece)))
