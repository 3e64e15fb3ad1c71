"""What a server says to programs (metrics, events, codes, policies) stands on the pages, and nothing else does."""

import re
from pathlib import Path

import aiohttp
import pytest

from circadia.errors import EXIT_STATUS, HTTP_STATUS, JSON_RPC_CODE, Misdirected, OperatorError
from circadia.gateway.calls.paths import Route, resolve
from circadia.records.agent import AgentPolicy
from circadia.records.event import EventType
from tests.house.live_server import live_server
from tests.house.tree import DOCS, REFERENCE, coded, parts

ELSEWHERE = (OperatorError, Misdirected)
"""What no door answers: the first is told at the start, the second before a door is looked at."""
REST = REFERENCE / "rest.md"


def below(page: Path, heading: str) -> str:
    """Return the part of a page below the heading."""
    return next(part.text for part in parts(page) if part.heading == heading)


def rows(text: str) -> list[list[str]]:
    """Return the cells of the rows of the tables in `text`."""
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in text.splitlines() if line[:2] == "| "]


@pytest.mark.spec("SLEEP-60", "WAKE-74")
async def test_the_page_of_metrics_tells_those_that_a_server_gives_and_no_other(tmp_path: Path) -> None:
    async with live_server(tmp_path) as variables, aiohttp.ClientSession() as session:
        token = variables["CIRCADIA_ADMIN_TOKEN"]
        url = f"{variables['CIRCADIA_URL']}/metrics"
        async with session.get(url, headers={"authorization": f"Bearer {token}"}) as answer:
            given = set(re.findall(r"^# TYPE (\S+)", await answer.text(), re.M))
    page = coded((DOCS / "operations" / "metrics.md").read_text("utf-8"))
    told = {each for each in page if each.startswith(("circadia_", "process_"))}
    told.discard("circadia_sleep_…")
    assert told == {each for each in given if not each.endswith("_created")}


def test_the_page_tells_each_kind_of_event_and_no_other() -> None:
    told = {name for row in rows(below(REST, "Events")) for name in coded(row[0])}
    assert told == {each.value for each in EventType}


def test_each_key_of_a_policy_is_told_where_agents_are_made() -> None:
    told = {name for row in rows(below(REST, "`POST /api/v1/sessions/{session}/agents`")) for name in coded(row[0])}
    assert AgentPolicy.model_fields.keys() <= told


def test_each_code_of_a_json_rpc_error_is_told_with_its_number() -> None:
    table = rows((REFERENCE / "mcp.md").read_text("utf-8"))
    told = {row[0]: coded(row[1]) for row in table if re.fullmatch(r"-32\d{3}", row[0])}
    codes = {str(number): [each.code] for each, number in JSON_RPC_CODE.items() if not issubclass(each, ELSEWHERE)}
    assert told == {**codes, "-32603": []}


def test_each_code_that_a_model_call_may_be_refused_with_is_told() -> None:
    text = below(DOCS / "operations" / "limits.md", "What a refused model call says")
    told = {name for row in rows(text) if row[0][:1].isdigit() for name in coded(row[1])}
    assert told == {each.code for each in HTTP_STATUS if not issubclass(each, ELSEWHERE)} - {
        "conflict",
        "precondition_failed",
        "read_too_slow",
    }


def test_each_exit_status_is_told() -> None:
    told = {row[0] for row in rows(below(REFERENCE / "cli.md", "Errors"))}
    assert {str(status) for status in EXIT_STATUS.values()} <= told


@pytest.mark.spec("GATE-40", "GATE-41", "GATE-60")
def test_each_path_that_the_page_of_the_gateway_lists_passes_and_is_held_as_told() -> None:
    listed = rows(below(REFERENCE / "gateway.md", "Paths"))[1:]
    told = {code: row[1] == "yes" for row in listed for code in coded(row[0])}
    found = {code: resolve(code.split()[0], code.split()[1].translate({123: "", 125: ""}).encode()) for code in told}
    assert {code: route.generates for code, route in found.items() if isinstance(route, Route)} == told
    assert len(told) == 20
