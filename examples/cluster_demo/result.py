"""The table at the end: what clients saw, and what the servers say about it over REST."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

from rich.table import Table

from circadia.cli.demo import story
from circadia.cli.demo.server import DemoServer
from examples.cluster_demo.play import BANK, DEPLOY, READERS, SESSION, DemoOutcome, DemoStage, read_events, read_pulse

JOBS = sum(len(incident.jobs) for incident in story.INCIDENTS)
MESSAGES = len(story.INCIDENTS) + 2 * JOBS
"""A page for each incident; for each job a request and a reply."""


@dataclass(frozen=True, kw_only=True)
class Check:
    """One line of the table. Where nothing was expected, nothing was shown."""

    what: str
    expected: int
    found: int

    @property
    def is_right(self) -> bool:
        return self.found == self.expected > 0


async def check_all(stage: DemoStage, outcome: DemoOutcome) -> Sequence[Check]:
    gateway = stage.cluster.live_gateway
    reports = sum(bool(report) for report in outcome.reports)
    return [
        *await _check_messages(gateway),
        *await _check_pulse(gateway),
        Check(
            what="calls of the killed gateway held by the other one",
            expected=outcome.held.total(),
            found=(outcome.held & outcome.continued).total(),
        ),
        Check(what="model calls held to the end, then answered", expected=len(READERS), found=reports),
        await _check_notes(gateway, outcome),
        _check_events(outcome),
    ]


async def _check_messages(gateway: DemoServer) -> Sequence[Check]:
    threads = (await gateway.get(f"/sessions/{SESSION}/threads", closed="true"))["threads"]
    closed = [thread for thread in threads if thread["status"] == "closed"]
    sent = Counter[str]()
    for thread in threads:
        path = f"/sessions/{SESSION}/threads/{thread['id']}/messages"
        sent.update(message["content"] for message in (await gateway.get(path))["messages"])
    agents = (story.COORDINATOR, *story.SPECIALISTS)
    inboxes = [await gateway.get(f"/agents/{SESSION}:{agent}/inbox", state="handled") for agent in agents]
    read = sum(message["mentioned"] for inbox in inboxes for message in inbox["messages"])
    return [
        Check(what="threads of the incidents, closed", expected=2 * len(story.INCIDENTS), found=len(closed)),
        Check(what="messages sent", expected=MESSAGES, found=sent.total()),
        Check(what="messages read by those whom they mention", expected=MESSAGES, found=read),
    ]


async def _check_pulse(gateway: DemoServer) -> Sequence[Check]:
    wakes = (await gateway.get("/wakes", decision="admitted", agent=f"{SESSION}:{DEPLOY}"))["wakes"]
    pulse = await read_pulse(gateway)
    events = await read_events(gateway, type="pulse")
    statuses = Counter(event["data"]["status"] for event in events if event["data"]["pulse"] == pulse["id"])
    return [
        Check(what=f"wakes of {DEPLOY} admitted", expected=1, found=len(wakes)),
        Check(what="  starts of its pulse, one at each worker", expected=2, found=statuses["running"]),
        Check(what="  put back after the kill", expected=1, found=statuses["pending"] - 1),  # it began as pending
        Check(what="  successful ends", expected=1, found=statuses["succeeded"]),
    ]


async def _check_notes(gateway: DemoServer, outcome: DemoOutcome) -> Check:
    notes = (await gateway.get(f"/banks/{BANK}/episodes", limit="1000"))["episodes"]
    stored = Counter((note["key"], note["id"]) for note in notes)
    acknowledged = outcome.writer.acknowledged
    return Check(
        what="acknowledged notes that are there once",
        expected=len(acknowledged),
        found=sum(stored[written] == 1 for written in acknowledged.items()),
    )


def _check_events(outcome: DemoOutcome) -> Check:
    """Compare the followed events with the list: each must have arrived once, in order."""
    pairs = zip(outcome.events, outcome.follower.numbers, strict=False)
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    return Check(what="events followed without a gap", expected=len(outcome.events), found=same)


def build_table(checks: Sequence[Check]) -> Table:
    table = Table(title="After the kill of a gateway and a worker", title_justify="left")
    table.add_column("")
    for column in ("expected", "found"):
        table.add_column(column, justify="right")
    table.add_column("")
    for check in checks:
        mark = "[green]right[/green]" if check.is_right else "[red]wrong[/red]"
        table.add_row(check.what, str(check.expected), str(check.found), mark)
    return table
