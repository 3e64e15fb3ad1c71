"""The prompt `dream`, with which a person requests a pass over an agent's bank, or a dream over its memory folder.

(SLEEP-02, DREAM-31)
"""

from collections.abc import Mapping
from typing import Final

from mcp_types import GetPromptResult, Prompt, PromptArgument, PromptMessage, TextContent

from circadia.errors import Conflict, InvalidRequest, NotFound
from circadia.mcp_server.caller import Caller
from circadia.mcp_server.tools.dreams import MAX_INSTRUCTIONS, request_dream
from circadia.memory.episodes import is_text
from circadia.records.conversation import shorten_name
from circadia.records.sleep_pass import Pass, PassBlocker, Trigger
from circadia.sleeptime.triggers.pass_lifecycle import NewPass
from circadia.suggestions import did_you_mean

DREAM: Final = "dream"
MAX_USER: Final = 1_000
"""Maximum length of an end user's name, as in the other interfaces."""
_OPEN: Final = (None, PassBlocker.EMPTY, PassBlocker.NOBODY_DUE, PassBlocker.REPLYING)
"""Gates that do not block a manual request."""

_ARGUMENTS: Final[Mapping[str, str]] = {
    "instructions": "Instructions for this pass, such as `keep all dates`.",
    "dry_run": "`true` only proposes changes.",
    "bank": "A bank of the agent's policy; by default the bound one.",
    "folder": "A memory folder of the agent, instead of a bank.",
    "user": "The end user, if each has a bank, as with support-{user}.",
}


def list_prompts() -> list[Prompt]:
    arguments = [PromptArgument(name=name, description=text, required=False) for name, text in _ARGUMENTS.items()]
    summary = "Process recent conversations while nobody waits: notes, contradictions and blocks."
    return [Prompt(name=DREAM, title="Dream", description=summary, arguments=arguments)]


async def get_prompt(caller: Caller, name: str, arguments: Mapping[str, str]) -> GetPromptResult:
    """Request the pass, and return the message for the client's model.

    Raises:
        NotFound: there is no such prompt, or the bank holds nothing. InvalidRequest: a bad argument.
        Forbidden: no access to the bank, or only read access. Conflict: a pass is open, or a gate is closed.
    """
    if name != DREAM:
        raise NotFound(f"no prompt {name!r}; there is {DREAM!r}")
    unknown = [key for key in arguments if key not in _ARGUMENTS]
    if unknown:
        raise InvalidRequest(f"{DREAM} takes no argument {unknown[0]!r}{did_you_mean(unknown[0], _ARGUMENTS)}")
    instructions, dry_run = arguments.get("instructions", ""), arguments.get("dry_run", "false") or "false"
    if len(instructions) > MAX_INSTRUCTIONS or not all(is_text(value) for value in arguments.values()):
        raise InvalidRequest(f"instructions are text of at most {MAX_INSTRUCTIONS} characters")
    if dry_run not in ("true", "false"):
        raise InvalidRequest(f"dry_run is 'true' or 'false', not {dry_run[:80]!r}")
    if folder := arguments.get("folder"):
        return await _request_dream(caller, folder, instructions, arguments)
    new = NewPass(trigger=Trigger.HAND, by=caller.principal.name, instructions=instructions, dry_run=dry_run == "true")
    bank, run = await _request_pass(caller, arguments.get("bank") or None, _user(arguments), new)
    dry = ", as a dry run" if run.dry_run else ""
    text = (
        f"A pass over the memory bank {bank!r} is asked for: {run.id}{dry}. It runs "
        "while nobody waits. Tell the person so in one sentence, and that `circadia passes diff "
        f"{run.id}` shows what it changes once it has ended. Do nothing else."
    )
    return GetPromptResult(description=f"Pass {run.id} over {bank}", messages=[_build_message(text)])


async def _request_dream(
    caller: Caller, folder: str, instructions: str, arguments: Mapping[str, str]
) -> GetPromptResult:
    if more := [key for key in ("bank", "user", "dry_run") if arguments.get(key)]:
        raise InvalidRequest(f"{more[0]} is for a bank; leave it out for a memory folder")
    job = await request_dream(caller, folder, instructions)
    text = (
        f"A dream over the memory folder {folder!r} is asked for: {job.id}. Tell the person so in one sentence, and "
        "that the tool dream_diff shows what it changes once it has ended. Do nothing else."
    )
    return GetPromptResult(description=f"Dream {job.id} over {folder}", messages=[_build_message(text)])


def _build_message(text: str) -> PromptMessage:
    """Return the message in marks by which a later dream knows that no person has written it (DREAM-03)."""
    marked = f"<circadia-dream>\n{text}\n</circadia-dream>"
    return PromptMessage(role="user", content=TextContent(type="text", text=marked))


def _user(arguments: Mapping[str, str]) -> str | None:
    user = arguments.get("user") or None
    if user is not None and len(user) > MAX_USER:
        raise InvalidRequest(f"user has {len(user)} characters; the limit is {MAX_USER}")
    return shorten_name(user)


async def _request_pass(caller: Caller, name: str | None, user: str | None, new: NewPass) -> tuple[str, Pass]:
    """Request a pass over a bank that the caller may write to; agents must respect the gates."""
    memory, tier = caller.context.memory, caller.context.sleeptime
    await tier.flush_answered_calls()
    async with caller.context.store.begin_write() as tx:
        bank = await memory.banks.open_bank(tx, caller.principal, name, user=user)  # does not create the bank
        await memory.banks.open_bank(tx, caller.principal, name, write=True, user=user)
        if not caller.principal.is_operator:
            verdict = await tier.fetch_verdict(tx, bank)
            if verdict.gate not in _OPEN:
                raise Conflict(f"no pass over {bank.name!r} now: {verdict.detail}")
        return bank.name, await tier.request_pass(tx, bank, new)
