"""Tools of sleep-time agents: rewrite a block, and finish the edits (SLEEP-27)."""

from typing import Annotated, Final

from pydantic import BeforeValidator, Field

from circadia.mcp_server.arguments import Arguments, NoArguments, ToolResult
from circadia.mcp_server.caller import Caller
from circadia.mcp_server.tools.memory import BankName, BlockResult, Expected, Label, User, as_text, block_answer
from circadia.mcp_server.tools.sleep import Unconfirmed, list_unconfirmed
from circadia.mcp_server.tools.tool import Tool
from circadia.memory.blocks import BlockUpdate, writer_of
from circadia.records.agent import Cause


class RethinkArguments(Arguments):
    label: Label
    value: Annotated[str, BeforeValidator(as_text)] = Field(
        description="The complete new text of the block: with the new facts in their place, and nothing lost."
    )
    why: Annotated[str, BeforeValidator(as_text)] = Field(default="", max_length=2000, description="Reason.")
    expected_version: Expected = None
    bank: BankName = None
    user: User = None


class FinishAnswer(ToolResult):
    sleeping: bool
    unconfirmed: Unconfirmed = ()


async def _rethink(caller: Caller, arguments: RethinkArguments) -> ToolResult:
    agent = caller.agent
    memory = caller.parts.memory
    edit = BlockUpdate(value=arguments.value, why=arguments.why, expected_version=arguments.expected_version)
    async with caller.parts.store.begin_write() as tx:
        bank = await memory.banks.open_bank(tx, caller.principal, arguments.bank, write=True, user=arguments.user)
        written = await memory.blocks.write(
            tx, bank, arguments.label, edit, writer=writer_of(caller.principal), by=agent.reference
        )
    return block_answer(bank.name, written)


async def _finish(caller: Caller, _: NoArguments) -> ToolResult:
    agent = caller.agent
    async with caller.parts.store.begin_write() as tx:
        outcome = await caller.parts.wake.control.set(tx, caller.principal, agent, asleep=True, cause=Cause.TOOL)
    return FinishAnswer(sleeping=outcome.agent.asleep, unconfirmed=await list_unconfirmed(caller, outcome.agent))


RETHINK_TOOLS: Final = (
    Tool(
        name="memory_rethink",
        description=(
            "Rewrite a whole block of the learned context. Read `circadia://context` first, keep what is still true, "
            "and put new facts where they belong."
        ),
        arguments=RethinkArguments,
        answer=BlockResult,
        run=_rethink,
    ),
    Tool(
        name="memory_finish_edits",
        description=(
            "Finish the edits. You fall asleep, and your next call waits, at no cost, until there is something new."
        ),
        arguments=NoArguments,
        answer=FinishAnswer,
        run=_finish,
    ),
)
