"""The story of both runs of the demo: an hour on call, about a story minute per second of the default run.

The outside world (incidents, a slow query, a slow build) has the same time line in both runs. The time of model and
other calls is real and not scaled: a long model call takes story minutes in which no loop turns, which favours the
run without sleep.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

STORY_MINUTES = 60
CLIENT_WAIT_SECONDS = 300.0
"""Default read timeout of the Python MCP client and idle limit of Claude Code. A TypeScript client gives up after
60 s, so its loop turns five times as often."""

COORDINATOR = "coordinator"
PAGER = "pager"
"""Account of the outside world: opens a thread for each incident and mentions the coordinator. It has no program."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """A specialist's work on an incident.

    Attributes:
        what: Outside activity, as the display shows it.
        minutes: Its duration in story minutes.
        finding: First sentence of the reply; the model's answer follows.
    """

    agent: str
    ask: str
    what: str
    minutes: float
    prompt: str
    finding: str


@dataclass(frozen=True, kw_only=True)
class Incident:
    """An incident in the outside world; `id` is the prefix of each message about it, `minute` its story minute."""

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
    """The scale between story time and real time; `run_seconds` are real, `client_wait_seconds` story seconds."""

    run_seconds: float
    client_wait_seconds: float

    @property
    def factor(self) -> float:
        return STORY_MINUTES * 60 / self.run_seconds

    @property
    def wait_seconds(self) -> float:
        return self.client_wait_seconds / self.factor

    def seconds(self, minutes: float) -> float:
        return minutes * 60 / self.factor


def part(agent: str, scale: TimeScale, model: str, limit_field: str) -> dict[str, Any]:
    """Return the input of the agent's program, which is the same in both runs."""
    common: dict[str, Any] = {
        "model": model,
        "limit_field": limit_field,
        "max_tokens": MAX_TOKENS,
        "wait_seconds": scale.wait_seconds,
        "idle_prompt": IDLE_PROMPT,
    }
    if agent == COORDINATOR:
        steps = {incident.id: [{"agent": job.agent, "ask": job.ask} for job in incident.jobs] for incident in INCIDENTS}
        return {**common, "system": "You coordinate the people on call for a web shop.", "incidents": steps}
    jobs = {
        incident.id: {
            "what": job.what,
            "seconds": scale.seconds(job.minutes),
            "prompt": job.prompt,
            "finding": job.finding,
        }
        for incident in INCIDENTS
        for job in incident.jobs
        if job.agent == agent
    }
    return {**common, "system": SPECIALISTS[agent], "jobs": jobs}


def graph(name: str, *, sleeping: bool) -> dict[str, Any]:
    """Return the session to create: the whole team, where all but the pager sleep, or nobody."""
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
