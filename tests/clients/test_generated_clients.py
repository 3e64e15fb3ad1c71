"""Generators of clients take the OpenAPI document without a warning, and what they make works."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from circadia.api.app import openapi_document
from tests.api.service import ADMIN, Service, serving
from tests.clients.node_program import MODULES, node

GENERATOR = Path(sys.prefix) / "openapi-python-client" / "bin"
PROGRAM = """
import importlib, pkgutil, sys, warnings
warnings.simplefilter("error")
import made
for module in pkgutil.walk_packages(made.__path__, "made."):
    importlib.import_module(module.name)
from made.api.agents import create_agent
from made.api.banks import create_bank
from made.api.episodes import remember
from made.api.events import list_events
from made.api.memory_transfer import export_bank, import_lines
from made.api.schedule import set_schedule, show_schedule
from made.api.sessions import show_session
from made.api.usage import report_usage
from made.models import AgentBody, BankBody, EpisodeBody, RoutineBody, ScheduleBody
from made.models.report_usage_group_by_item import ReportUsageGroupByItem as Grouping
with made.AuthenticatedClient(base_url=sys.argv[1], token=sys.argv[2]) as client:
    agent = create_agent.sync("default", client=client, body=AgentBody(name="ann"))
    print(agent.name, agent.sleeping, agent.policy.on_wake)
    for event in list_events.sync(client=client).events:
        print(type(event).__name__, event.number, type(event.data).__name__)
    create_bank.sync(client=client, body=BankBody(name="home"))
    remember.sync("home", client=client, body=EpisodeBody(text="I like tea."))
    copied = import_lines.sync("copy", client=client, body=export_bank.sync("home", client=client))
    print(copied.bank, copied.episodes)
    tag = show_schedule.sync("ann", client=client).etag
    plan = ScheduleBody(routines=[RoutineBody(name="r", every_seconds=3600)])
    print(len(set_schedule.sync("ann", client=client, body=plan, if_match=tag).next_runs))
    print(set_schedule.sync("ann", client=client, body=plan, if_match=tag).code)
    print(report_usage.sync(client=client, group_by=[Grouping.DAY, Grouping.TIER]).group_by)
    refused = show_session.sync("nowhere", client=client)
print(type(refused).__name__, refused.status, refused.code)
"""
TYPED = """
import type { components, operations } from "./api";
type Event = components["schemas"]["EventView"];
export function seconds(event: Event): number {
  if (event.type === "sleep_start") return event.data.lasted_seconds;
  if (event.type === "alert" && event.data.cause === "routine_skipped") return event.data.skips;
  // @ts-expect-error the data of another kind
  if (event.type === "session_created") return event.data.lasted_seconds;
  return event.number;
}
type Errors = operations["show_session"]["responses"];
export const problem: keyof Errors[404]["content"] = "application/problem+json";
// @ts-expect-error it has no body, so it meets no state that forbids it
export type Conflict = Errors[409];
"""


@pytest.fixture
def document(tmp_path: Path) -> Path:
    path = tmp_path / "openapi.json"
    path.write_text(json.dumps(openapi_document()), "utf-8")
    return path


@pytest.fixture
async def service(tmp_path: Path) -> AsyncGenerator[Service]:
    async with serving(tmp_path) as running:
        yield running


async def run(*words: str | Path, cwd: Path) -> list[str]:
    """Return the lines that a program writes; fail if it fails."""
    environment = {**os.environ, "PATH": f"{GENERATOR}{os.pathsep}{os.environ['PATH']}", "NO_COLOR": "1"}
    process = await asyncio.create_subprocess_exec(
        *words, cwd=cwd, env=environment, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    output, _ = await asyncio.wait_for(process.communicate(), 100)
    assert process.returncode == 0, output.decode()
    return output.decode().splitlines()


@pytest.mark.spec("SHIP-07")
async def test_openapi_python_client_makes_a_client_that_talks_to_a_server(document: Path, service: Service) -> None:
    folder = document.parent
    assert GENERATOR.is_dir(), f"{GENERATOR} is missing; `make test` makes it"
    generate = [GENERATOR / "openapi-python-client", "generate", "--meta", "none", "--fail-on-warning"]
    assert await run(*generate, "--path", document, "--output-path", "made", cwd=folder) == ["Generating made"]
    assert await run(GENERATOR / "python", "-c", PROGRAM, service.url, ADMIN, cwd=folder) == [
        "ann False notice",
        "SessionCreatedEventView 1 SessionCreation",
        "AgentCreatedEventView 2 AgentCreation",
        "copy 1",
        "10",
        "precondition_failed",
        "day,tier",
        "Problem 404 not_found",
    ]


@pytest.mark.spec("SHIP-07")
async def test_openapi_typescript_makes_types_that_narrow_an_event_by_its_kind(document: Path) -> None:
    folder = document.parent
    script = MODULES / "openapi-typescript" / "bin" / "cli.js"
    lines = await run(node(), script, document, "--output", folder / "api.d.ts", cwd=folder)
    assert [line for line in lines if line and line[0] not in "✨🚀"] == []
    (folder / "typed.ts").write_text(TYPED, "utf-8")
    compiler = [node(), MODULES / "typescript" / "bin" / "tsc", "--noEmit", "--strict"]
    assert await run(*compiler, folder / "typed.ts", folder / "api.d.ts", cwd=folder) == []


@pytest.mark.spec("SHIP-07")
async def test_a_linter_finds_no_error_in_the_document(document: Path) -> None:
    lint = [node(), MODULES / "@redocly" / "cli" / "bin" / "cli.js", "lint", "--extends=minimal", "--format=summary"]
    await run(*lint, document, cwd=document.parent)
