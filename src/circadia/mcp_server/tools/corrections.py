"""Tools by which an agent corrects and forgets what its end user said (MEM-39)."""

from datetime import datetime
from typing import Annotated, Final

from pydantic import BeforeValidator, Field

from circadia.ids import EpisodeId
from circadia.mcp_server.caller import Caller
from circadia.mcp_server.tool import Arguments, ToolResult, tool
from circadia.mcp_server.tools.memory import BankName, User, as_text

EpisodeKey = Annotated[
    str, BeforeValidator(as_text), Field(min_length=1, max_length=200, description="Id of the episode, from `recall`.")
]


class Correct(Arguments):
    episode: EpisodeKey
    correction: Annotated[str, BeforeValidator(as_text)] = Field(
        description="What is right, or that it is wrong, in words that make sense later."
    )
    bank: BankName = None
    user: User = None


class CorrectResult(ToolResult):
    bank: str = Field(description="Name of the bank.")
    episode: str = Field(description="Id of the wrong episode, which ranks lower now.")
    correction: str = Field(description="Id of the correction, which the next pass reads.")
    new: bool = Field(description="False if it was corrected so before.")


class Forget(Arguments):
    episode: EpisodeKey
    bank: BankName = None
    user: User = None


class ForgetResult(ToolResult):
    bank: str = Field(description="Name of the bank.")
    episode: str = Field(description="Id of the forgotten episode.")
    restorable_until: datetime = Field(description="Until when a person can restore it; then it is deleted.")
    new: bool = Field(description="False if it was forgotten before.")


@tool(
    "memory_correct",
    "Say that something your end user said is wrong or no longer so, when they ask for it: it counts less from now on, "
    "and what was learned from it is checked again. State what is right.",
)
async def _correct(caller: Caller, arguments: Correct) -> CorrectResult:
    agent, memory = caller.agent, caller.context.memory
    async with caller.context.store.begin_write() as tx:
        bank = await memory.banks.open_bank(tx, caller.principal, arguments.bank, write=True, user=arguments.user)
        done = await memory.corrections.correct(tx, bank, agent, EpisodeId(arguments.episode), arguments.correction)
    return CorrectResult(bank=bank.name, episode=done.episode.id, correction=done.correction, new=done.new)


@tool(
    "memory_forget",
    "Forget something your end user said, when they ask for it, with all that was learned from it. A person can "
    "restore it for 7 days.",
    destructive=True,
)
async def _forget(caller: Caller, arguments: Forget) -> ForgetResult:
    agent, memory = caller.agent, caller.context.memory
    async with caller.context.store.begin_write() as tx:
        bank = await memory.banks.open_bank(tx, caller.principal, arguments.bank, write=True, user=arguments.user)
        done = await memory.corrections.forget(tx, bank, agent, EpisodeId(arguments.episode))
    row = done.forgotten
    return ForgetResult(bank=bank.name, episode=row.episode.id, restorable_until=row.restorable_until, new=done.new)


CORRECTION_TOOLS: Final = (_correct, _forget)
"""Listed for agents whose policy has `correct_memory`."""
