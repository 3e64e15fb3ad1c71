"""What one agent of the demo did, counted from the lines that its program prints."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(kw_only=True)
class AgentTally:
    """Counts of one agent in one run; `take` is the only writer, the state apart, which the server knows.

    Attributes:
        agent: Its name.
        doing: What it does now.
        work_calls: Model calls for work.
        empty_calls: Model calls after an empty wait.
        unknown_calls: Model calls of those for which the provider gave no usage.
        input_tokens: Tokens into the model.
        output_tokens: Tokens out of it.
        cached_tokens: Of the input, those that the provider took from its cache.
        waits: Waits that ended, with a mention or without.
        empty_waits: Those that ended without.
        tool_calls: MCP calls that were answered.
        jobs: What it finished.
        errors: What its clients complained about.
        ready: Whether its clients are connected.
        ended: Whether its program said good-bye.
        sleeping: Its state, as the server tells it.
        held: Its held calls, as the server tells them.
        asleep_seconds: How long it slept.
        naps: How often it fell asleep, the start included.
    """

    agent: str
    doing: str = "starts"
    work_calls: int = 0
    empty_calls: int = 0
    unknown_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    waits: int = 0
    empty_waits: int = 0
    tool_calls: int = 0
    jobs: list[str] = field(default_factory=list[str])
    errors: list[str] = field(default_factory=list[str])
    ready: bool = False
    ended: bool = False
    sleeping: bool = False
    held: int = 0
    asleep_seconds: float = 0.0
    naps: int = 0

    @property
    def model_calls(self) -> int:
        """All model calls that were answered."""
        return self.work_calls + self.empty_calls

    def count_line(self, line: Mapping[str, Any]) -> None:
        """Count one line. A kind that is not known changes nothing."""
        match line.get("event"):
            case "ready":
                self.ready = True
            case "end":
                self.ended, self.doing = True, "ended"
            case "doing":
                self.doing = str(line["what"])
            case "model":
                self._count_model_call(line)
            case "wait":
                self.waits += 1
                self.empty_waits += bool(line["empty"])
            case "tool":
                self.tool_calls += 1
            case "error":
                self.errors.append(str(line["message"]))
            case "done":
                self.jobs.append(str(line["incident"]))
            case "incident" if line["state"] == "closed":
                self.jobs.append(str(line["incident"]))
            case _:
                pass

    def record_state(self, *, sleeping: bool, held: int, seconds: float) -> None:
        """Note the state that the server tells, `seconds` after the last time."""
        self.asleep_seconds += seconds if sleeping and self.sleeping else 0.0
        self.naps += sleeping and not self.sleeping
        self.sleeping, self.held = sleeping, held

    def _count_model_call(self, line: Mapping[str, Any]) -> None:
        if line["purpose"] == "empty":
            self.empty_calls += 1
        else:
            self.work_calls += 1
        if line["input"] is None or line["output"] is None:
            self.unknown_calls += 1
            return
        self.input_tokens += int(line["input"])
        self.output_tokens += int(line["output"])
        self.cached_tokens += int(line["cached"])
