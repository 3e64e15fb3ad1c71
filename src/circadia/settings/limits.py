"""Sections `defaults` (how calls are held) and `limits` (how much may be held and sent)."""

from typing import Literal

from pydantic import Field

from circadia.settings.agents import PolicySettings
from circadia.settings.section import Section


class DefaultsSettings(PolicySettings):
    """Policy of agents that say nothing of their own, and the timing of holds."""

    hold_grace_seconds: float = Field(
        2.0,
        ge=0,
        description="A held stream or MCP call keeps its real status open for so long, then says 200.",
    )
    hold_silent_seconds: float | None = Field(
        None,
        ge=0,
        description="A held buffered model call stays silent for so long, so that real statuses survive; "
        "120 by default, 45 with the profile `reverse_proxy`.",
    )
    keep_alive_seconds: float = Field(15.0, gt=0, description="Time between two signs of life to a held caller.")
    profile: Literal["direct", "reverse_proxy"] = Field(
        "direct", description="`reverse_proxy` where something between cuts silent connections at 60 s."
    )
    mcp_wait_answer_seconds: float | None = Field(
        None,
        gt=0,
        description='After so long, Circadia\'s own wait tools answer "nothing yet, call again"; for clients that '
        "give up at 60 s. By default after 55 s for MCP clients in JavaScript that ask for no progress, else never.",
    )
    stall_seconds: float = Field(
        300.0, gt=0, description="`session_stalled` is told when all agents of a session slept for so long."
    )

    @property
    def silent_seconds(self) -> float:
        """Return the silent phase that is in force."""
        if self.hold_silent_seconds is not None:
            return self.hold_silent_seconds
        return 45.0 if self.profile == "reverse_proxy" else 120.0


class LimitsSettings(Section):
    """How much may be held, sent and kept; over a limit a call is refused with 429 or 413, and memory does not grow."""

    max_holds: int = Field(20_000, ge=0, description="Held calls in all.")
    max_holds_per_agent: int = Field(2_000, ge=0, description="Held calls of one agent.")
    max_held_bytes: int = Field(
        256 * 2**20, ge=0, description="Bytes of held bodies kept in memory in all; more go to disk."
    )
    spill_bytes: int = Field(64 * 2**10, ge=0, description="A held body larger than this goes to disk.")
    max_spilled_bytes: int = Field(4 * 2**30, ge=0, description="Bytes of held bodies on disk in all.")
    max_model_body_bytes: int = Field(8 * 2**20, gt=0, description="Largest body of a model call.")
    max_mcp_body_bytes: int = Field(4 * 2**20, gt=0, description="Largest body of an MCP call to a server behind.")
    max_api_body_bytes: int = Field(
        1 * 2**20, gt=0, description="Largest body of a REST call, and of an MCP call of Circadia's own tools."
    )
    max_answer_bytes: int = Field(
        64 * 2**20, gt=0, description="Largest buffered answer of an upstream or MCP server; a stream has no limit."
    )
    max_message_characters: int = Field(64_000, gt=0, description="Longest message in a thread.")
    max_open_threads_per_agent: int = Field(
        1_000, ge=0, description="Threads that an agent has opened and that are still open."
    )
    max_failed_tokens_per_minute: int | None = Field(
        60, ge=1, description="Tokens that open nothing from one address; then it gets 429. `null` is no limit."
    )
    keep_handled_days: int | None = Field(
        90,
        ge=0,
        le=36_500,
        description="Handled deliveries are deleted after so many days, with direct messages that nothing refers to "
        "any more; `null` keeps them for ever.",
    )
