"""The resource `circadia://context`: what the caller's bank says in a prompt, blocks with the version of each."""

from dataclasses import replace
from typing import Final
from urllib.parse import parse_qsl

from circadia.errors import InvalidRequest, NotFound
from circadia.mcp_server.caller import Caller
from circadia.memory.asked import may_keep_question
from circadia.memory.episodes import is_text
from circadia.memory.uses import build_use
from circadia.records.end_user import shorten_name

CONTEXT: Final = "circadia://context"
_KNOWN: Final = ("q", "bank", "user")
_NOTHING: Final = "Nothing is learned yet.\n"


async def context_of(caller: Caller, query: str) -> str:
    """Return the text for `q`, `bank` and `user` of a query string, all of which may be left out.

    Raises:
        InvalidRequest: an unknown key, or a bank or an end user is needed and not given. Forbidden: not its bank.
    """
    asked = dict(parse_qsl(query))
    unknown = [name for name in asked if name not in _KNOWN]
    if unknown or not all(is_text(each) for each in asked.values()):
        raise InvalidRequest(f"{CONTEXT} takes {', '.join(map(repr, _KNOWN))} as text after a question mark")
    memory = caller.parts.memory
    own = caller.principal.agent
    policy = own.policy if own else caller.parts.settings.defaults.policy()
    question = await memory.retrieval.prepare_question(asked["q"]) if "q" in asked else None
    async with caller.parts.store.begin_read() as tx:
        try:
            bank = await memory.banks.open_bank(
                tx, caller.principal, asked.get("bank"), user=shorten_name(asked.get("user"))
            )
        except NotFound:
            if own is None:
                raise
            return _NOTHING  # one of its own that nobody has written to yet
        if question is not None:
            question = replace(question, counted=may_keep_question(bank, own))
        made = await memory.contexts.build(
            tx, bank, question, stable_tokens=policy.stable_tokens, fitting_tokens=policy.fitting_tokens
        )
    if own is not None:
        memory.uses.add(build_use(bank, own.id, made.hits, made.blocks))
    versions = ", ".join(f"{each.label} {each.version}" for each in made.blocks)
    parts = [
        made.stable,
        f"Versions of the blocks: {versions}" if versions else "",
        f"No room for: {', '.join(made.left_out)}" if made.left_out else "",
        made.fitting,
    ]
    return "\n\n".join(part for part in parts if part) + "\n" if any(parts) else _NOTHING
