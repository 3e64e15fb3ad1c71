"""The prompt `dream`: a person asks, through the client of an agent, for a pass over that agent's bank (SLEEP-02)."""

from collections.abc import Mapping
from typing import Final

from mcp_types import GetPromptResult, Prompt, PromptArgument, PromptMessage, TextContent

from circadia.errors import Conflict, InvalidRequest, NotFound
from circadia.mcp_server.caller import Caller
from circadia.memory.episodes import is_text
from circadia.records.end_user import shorten_name
from circadia.records.sleep_pass import Pass, Trigger
from circadia.sleeptime.triggers.due import PassBlocker
from circadia.sleeptime.triggers.pass_lifecycle import NewPass
from circadia.suggestions import did_you_mean

DREAM: Final = "dream"
MAX_USER: Final = 1_000
"""Characters of an end user's name, as at the other doors."""
MAX_INSTRUCTIONS: Final = 10_000
"""Characters of what a person wants of a pass."""
_OPEN: Final = (None, PassBlocker.EMPTY, PassBlocker.NOBODY_DUE, PassBlocker.REPLYING)
"""What does not keep somebody who asks."""

_ARGUMENTS: Final[Mapping[str, str]] = {
    "instructions": "What you want of this pass in particular, such as `keep all dates`.",
    "dry_run": "`true` only proposes, and writes nothing.",
    "bank": "A bank that the agent's policy names; by default the one that it is bound to.",
    "user": "The end user, where the bank is one for each, such as support-{user}.",
}


def list_prompts() -> list[Prompt]:
    """Return what `prompts/list` shows."""
    arguments = [PromptArgument(name=name, description=told, required=False) for name, told in _ARGUMENTS.items()]
    told = "Work through what was said since the last time: notes, contradictions and blocks, while nobody waits."
    return [Prompt(name=DREAM, title="Dream", description=told, arguments=arguments)]


async def get_prompt(caller: Caller, name: str, given: Mapping[str, str]) -> GetPromptResult:
    """Ask for the pass, and return what the client's model is to tell.

    Raises:
        NotFound: there is no such prompt, or the bank holds nothing. InvalidRequest: a bad argument.
        Forbidden: not its bank, or it may only read it. Conflict: a pass has not ended, or a gate is closed.
    """
    if name != DREAM:
        raise NotFound(f"no prompt {name!r}; there is {DREAM!r}")
    unknown = [key for key in given if key not in _ARGUMENTS]
    if unknown:
        raise InvalidRequest(f"{DREAM} takes no argument {unknown[0]!r}{did_you_mean(unknown[0], _ARGUMENTS)}")
    instructions, dry_run = given.get("instructions", ""), given.get("dry_run", "false") or "false"
    if len(instructions) > MAX_INSTRUCTIONS or not all(is_text(each) for each in given.values()):
        raise InvalidRequest(f"instructions are text of at most {MAX_INSTRUCTIONS} characters")
    if dry_run not in ("true", "false"):
        raise InvalidRequest(f"dry_run is 'true' or 'false', not {dry_run[:80]!r}")
    new = NewPass(trigger=Trigger.HAND, by=caller.principal.name, instructions=instructions, dry_run=dry_run == "true")
    bank, run = await _request_pass(caller, given.get("bank") or None, _user(given), new)
    dry = ", as a dry run" if run.dry_run else ""
    text = (
        f"A pass over the memory bank {bank!r} is asked for: {run.id}{dry}. It runs "
        "while nobody waits. Tell the person so in one sentence, and that `circadia sleeptime diff "
        f"{run.id}` shows what it changes once it has ended. Do nothing else."
    )
    message = PromptMessage(role="user", content=TextContent(type="text", text=text))
    return GetPromptResult(description=f"Pass {run.id} over {bank}", messages=[message])


def _user(given: Mapping[str, str]) -> str | None:
    user = given.get("user") or None
    if user is not None and len(user) > MAX_USER:
        raise InvalidRequest(f"user has {len(user)} characters; the limit is {MAX_USER}")
    return shorten_name(user)


async def _request_pass(caller: Caller, name: str | None, user: str | None, new: NewPass) -> tuple[str, Pass]:
    """Ask for a pass over a bank that the caller may write to; an agent's wish keeps to the gates."""
    memory, tier = caller.parts.memory, caller.parts.sleeptime
    await tier.flush_answered_calls()
    async with caller.parts.store.begin_write() as tx:
        bank = await memory.banks.open_bank(tx, caller.principal, name, user=user)  # one that is not there is not made
        await memory.banks.open_bank(tx, caller.principal, name, write=True, user=user)
        if not caller.principal.is_operator:
            verdict = await tier.fetch_verdict(tx, bank)
            if verdict.gate not in _OPEN:
                raise Conflict(f"no pass over {bank.name!r} now: {verdict.detail}")
        return bank.name, await tier.request_pass(tx, bank, new)
