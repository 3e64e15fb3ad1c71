"""Tools of a sleep-time agent: rewrite a block, and say that the edits are done (SLEEP-27)."""

from typing import Annotated, Final

from pydantic import BeforeValidator, Field

from circadia.mcp_server.arguments import Arguments, NoArguments, ToolResult
from circadia.mcp_server.caller import Caller
from circadia.mcp_server.tools.memory import BankName, BlockResult, Expected, Label, User, as_text, block_answer
from circadia.mcp_server.tools.tool import Tool
from circadia.memory.blocks import BlockUpdate, writer_of
from circadia.records.agent import Cause


class RethinkArguments(Arguments):
    """What `memory_rethink` takes."""

    label: Label
    value: Annotated[str, BeforeValidator(as_text)] = Field(
        description="The whole text that the block is to have: what was learned put in its place, nothing lost."
    )
    why: Annotated[str, BeforeValidator(as_text)] = Field(default="", max_length=2000, description="What for.")
    expected_version: Expected = None
    bank: BankName = None
    user: User = None


class FinishAnswer(ToolResult):
    """The caller's own state."""

    sleeping: bool


async def _rethink(caller: Caller, given: RethinkArguments) -> ToolResult:
    agent = caller.agent
    memory = caller.parts.memory
    edit = BlockUpdate(value=given.value, why=given.why, expected_version=given.expected_version)
    async with caller.parts.store.begin_write() as tx:
        bank = await memory.banks.open_bank(tx, caller.principal, given.bank, write=True, user=given.user)
        made = await memory.blocks.write(
            tx, bank, given.label, edit, writer=writer_of(caller.principal), by=agent.reference
        )
    return block_answer(bank.name, made)


async def _finish(caller: Caller, _: NoArguments) -> ToolResult:
    agent = caller.agent
    async with caller.parts.store.begin_write() as tx:
        moved = await caller.parts.sleep.set(tx, agent, asleep=True, cause=Cause.TOOL, actor=agent.reference)
    return FinishAnswer(sleeping=moved.asleep)


RETHINK_TOOLS: Final = (
    Tool(
        name="memory_rethink",
        description=(
            "Write a block of the learned context anew, as a whole. Read "
            "`circadia://context` first, keep what is still true, and put new facts where they belong."
        ),
        arguments=RethinkArguments,
        answer=BlockResult,
        run=_rethink,
    ),
    Tool(
        name="memory_finish_edits",
        description=(
            "Say that the edits are done. You fall asleep, and your next call waits, at no "
            "cost, until there is something new."
        ),
        arguments=NoArguments,
        answer=FinishAnswer,
        run=_finish,
    ),
)
