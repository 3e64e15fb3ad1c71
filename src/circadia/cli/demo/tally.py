"""Counts of one demo agent, from the lines that its program prints."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(kw_only=True)
class AgentTally:
    """Counts of one agent in one run; `count_line` writes them, except for the state, which the server reports.

    Attributes:
        work_calls: Model calls for work.
        empty_calls: Model calls after an empty wait.
        unknown_calls: Model calls without usage from the provider.
        cached_tokens: Input tokens from the provider's cache.
        waits: Ended waits, with or without a mention.
        empty_waits: Ended waits without a mention.
        tool_calls: Answered MCP calls.
        jobs: Finished incidents.
        ready: Whether its clients are connected.
        ended: Whether its program ended normally.
        naps: Number of times it fell asleep, including the start.
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
        return self.work_calls + self.empty_calls

    def count_line(self, line: Mapping[str, Any]) -> None:
        """Count one line; ignore unknown events."""
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
        """Record the state from the server, `seconds` after the last one."""
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
