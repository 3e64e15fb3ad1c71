"""The story that both runs of the demo tell: an hour on call, one story minute in each second of the default run.

The outside world (incidents, a slow query, a slow build) keeps one time line in both runs. Only real things are not
scaled: what the model and the calls take. A long model call so takes story minutes in which no loop turns, which is to
the advantage of the run without sleep.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

STORY_MINUTES = 60
CLIENT_WAIT_SECONDS = 300.0
"""The Python MCP client's default patience between two bytes of an answer, and Claude Code's idle limit. A TypeScript
client gives up after 60 s, and its loop turns five times as often."""

COORDINATOR = "coordinator"
PAGER = "pager"
"""The outside world's account: it opens a thread for an incident and mentions the coordinator. It has no program."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """What a specialist does about an incident.

    Attributes:
        agent: Who.
        ask: What the coordinator writes.
        what: What takes time outside, as the display shows it.
        minutes: How long, in story minutes.
        prompt: What the specialist asks its model then.
        finding: The first sentence of its reply; the model's answer follows.
    """

    agent: str
    ask: str
    what: str
    minutes: float
    prompt: str
    finding: str


@dataclass(frozen=True, kw_only=True)
class Incident:
    """Something that happens outside.

    Attributes:
        id: Its short name; each message about it begins with it.
        minute: When, in story minutes.
        page: What the pager writes.
        jobs: Who is asked in turn.
    """

    id: str
    minute: float
    page: str
    jobs: Sequence[Job]


SPECIALISTS: Mapping[str, str] = {
    "logs": "You read the logs of a web shop.",
    "metrics": "You watch the metrics of a web shop.",
    "database": "You look after the database of a web shop.",
    "deploy": "You build and ship the services of a web shop.",
}

INCIDENTS = (
    Incident(
        id="INC-1",
        minute=8,
        page="checkout answers 500 for one order in five",
        jobs=(
            Job(
                agent="logs",
                ask="please look for errors at checkout",
                what="searches the logs",
                minutes=4,
                prompt="The log says: timeout at a row lock in table orders. Sum up in one short sentence.",
                finding="row lock timeouts in table orders.",
            ),
            Job(
                agent="database",
                ask="please find what locks table orders",
                what="runs a slow query",
                minutes=5,
                prompt="Query 4711 of the report service holds the lock. Sum up in one short sentence.",
                finding="the report service holds the lock.",
            ),
            Job(
                agent="deploy",
                ask="please ship the report service without that query",
                what="waits for a slow build",
                minutes=12,
                prompt="The build is green and shipped. Sum up in one short sentence.",
                finding="shipped.",
            ),
        ),
    ),
    Incident(
        id="INC-2",
        minute=46,
        page="disk of the image store is 91 % full",
        jobs=(
            Job(
                agent="metrics",
                ask="please say when the disk will be full",
                what="fits a line to a week of samples",
                minutes=3,
                prompt="The disk grows by 0.4 % a day. Sum up in one short sentence.",
                finding="22 days are left.",
            ),
        ),
    ),
)

IDLE_PROMPT = "Nothing new. Decide the next step in one short sentence."
MAX_TOKENS = 12


@dataclass(frozen=True, kw_only=True)
class TimeScale:
    """How story time becomes real time.

    Attributes:
        run_seconds: Real length of one run.
        client_wait_seconds: The wait time-out in the story.
    """

    run_seconds: float
    client_wait_seconds: float

    @property
    def factor(self) -> float:
        """Story seconds in one real second."""
        return STORY_MINUTES * 60 / self.run_seconds

    @property
    def wait_seconds(self) -> float:
        """The wait time-out in real seconds."""
        return self.client_wait_seconds / self.factor

    def seconds(self, minutes: float) -> float:
        """Return real seconds for story minutes."""
        return minutes * 60 / self.factor


def part(agent: str, scale: TimeScale, model: str, limit_field: str) -> dict[str, Any]:
    """Return what the program of `agent` needs to know; the same in both runs."""
    common: dict[str, Any] = {
        "model": model,
        "limit_field": limit_field,
        "max_tokens": MAX_TOKENS,
        "wait_seconds": scale.wait_seconds,
        "idle_prompt": IDLE_PROMPT,
    }
    if agent == COORDINATOR:
        steps = {each.id: [{"agent": job.agent, "ask": job.ask} for job in each.jobs] for each in INCIDENTS}
        return {**common, "system": "You coordinate the people on call for a web shop.", "incidents": steps}
    jobs = {
        each.id: {
            "what": job.what,
            "seconds": scale.seconds(job.minutes),
            "prompt": job.prompt,
            "finding": job.finding,
        }
        for each in INCIDENTS
        for job in each.jobs
        if job.agent == agent
    }
    return {**common, "system": SPECIALISTS[agent], "jobs": jobs}


def graph(name: str, *, sleeping: bool) -> dict[str, Any]:
    """Return the session to create: the whole team, with sleep for all but the pager or for nobody."""
    agents: list[dict[str, Any]] = [{"name": PAGER}]
    coordinator = {"sleep_events": ["last_thread_closed"], "wake_events": ["added_to_any_thread", "mentioned"]}
    specialist = {
        "sleep_events": ["agent_started", "removed_from_last_thread", "last_thread_closed"],
        "wake_events": ["added_to_any_thread", "mentioned"],
    }
    none: dict[str, list[str]] = {"sleep_events": [], "wake_events": []}
    agents.append({"name": COORDINATOR, **(coordinator if sleeping else none)})
    agents.extend({"name": agent, **(specialist if sleeping else none)} for agent in SPECIALISTS)
    return {"name": name, "agents": agents}
