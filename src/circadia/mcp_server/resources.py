"""The resources: instructions, session state and learned context."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from importlib.resources import files
from typing import Final
from urllib.parse import parse_qsl

from mcp_types import Resource, ResourceTemplate, TextResourceContents

from circadia.errors import InvalidRequest, NotFound
from circadia.mcp_server.caller import Caller
from circadia.mcp_server.state import state_of
from circadia.memory.episodes import is_text
from circadia.memory.uses import build_use
from circadia.records.conversation import shorten_name

CONTEXT: Final = "circadia://context"
_KNOWN: Final = ("q", "bank", "user")
_NOTHING: Final = "Nothing is learned yet.\n"


async def context_of(caller: Caller, query: str) -> str:
    """Return the context for the optional `q`, `bank` and `user` of a query string.

    Raises:
        InvalidRequest: an unknown key, or a missing bank or end user. Forbidden: no access to the bank.
    """
    query_values = dict(parse_qsl(query))
    unknown = [name for name in query_values if name not in _KNOWN]
    if unknown or not all(is_text(value) for value in query_values.values()):
        raise InvalidRequest(f"{CONTEXT} takes {', '.join(map(repr, _KNOWN))} as text after a question mark")
    memory = caller.parts.memory
    own = caller.principal.agent
    policy = own.policy if own else caller.parts.settings.defaults.policy()
    question = await memory.retrieval.prepare_question(query_values["q"]) if "q" in query_values else None
    async with caller.parts.store.begin_read() as tx:
        try:
            bank = await memory.banks.open_bank(
                tx, caller.principal, query_values.get("bank"), user=shorten_name(query_values.get("user"))
            )
        except NotFound:
            if own is None:
                raise
            return _NOTHING  # its bank does not exist before the first write
        context = await memory.contexts.build(
            tx, bank, question, stable_tokens=policy.stable_tokens, fitting_tokens=policy.fitting_tokens
        )
    if own is not None:
        memory.uses.add(build_use(bank, own.id, context.hits, context.blocks))
    versions = ", ".join(f"{block.label} {block.version}" for block in context.blocks)
    parts = [
        context.stable,
        f"Versions of the blocks: {versions}" if versions else "",
        f"No room for: {', '.join(context.left_out)}" if context.left_out else "",
        context.fitting,
    ]
    return "\n\n".join(part for part in parts if part) + "\n" if any(parts) else _NOTHING


INSTRUCTION: Final = "circadia://instruction"
STATE: Final = "circadia://state"


def instruction_text() -> str:
    """Return the instructions for agents."""
    return (files("circadia.mcp_server") / "instruction.md").read_text("utf-8")


@dataclass(frozen=True, kw_only=True, slots=True)
class _ResourceEntry:
    resource: Resource
    load_text: Callable[[Caller], Awaitable[str]]


class Resources:
    def __init__(self, instruction: str) -> None:
        async def read_instruction(caller: Caller) -> str:
            own = caller.principal.agent
            who = f"You are `{own.name}` in the session `{own.session}`." if own else "You are the operator."
            return f"{instruction}\n{who}\n"

        async def read_state(caller: Caller) -> str:
            return (await state_of(caller)).decode()

        async def read_context(caller: Caller) -> str:
            return await context_of(caller, "")

        entries = (
            _ResourceEntry(
                resource=Resource(
                    uri=INSTRUCTION,
                    name="instruction",
                    description="How to work with the other agents of this session. Read it once at the start.",
                    mime_type="text/markdown",
                ),
                load_text=read_instruction,
            ),
            _ResourceEntry(
                resource=Resource(
                    uri=STATE,
                    name="state",
                    description="Current session: you, the agents and who is asleep, your open threads.",
                    mime_type="application/json",
                ),
                load_text=read_state,
            ),
            _ResourceEntry(
                resource=Resource(
                    uri=CONTEXT,
                    name="context",
                    description="What you have learned so far: the blocks of your memory bank, with their versions.",
                    mime_type="text/markdown",
                ),
                load_text=read_context,
            ),
        )
        self._kept = {entry.resource.uri: entry for entry in entries}

    def list_resources(self) -> list[Resource]:
        return [entry.resource for entry in self._kept.values()]

    def list_templates(self) -> list[ResourceTemplate]:
        template = ResourceTemplate(
            uri_template=f"{CONTEXT}{{?q,bank,user}}",
            name="context for a question",
            description="The same for a question `q`, another `bank` of your policy, or an end `user`.",
            mime_type="text/markdown",
        )
        return [template]

    async def read_resource(self, caller: Caller, uri: str) -> TextResourceContents:
        """Return the contents of the resource.

        Raises:
            NotFound: there is no such resource.
        """
        address, mark, query = uri.partition("?")
        if mark and address == CONTEXT:
            text = await context_of(caller, query)
            return TextResourceContents(uri=uri, mime_type="text/markdown", text=text)
        entry = self._kept.get(uri)
        if entry is None:
            raise NotFound(f"no resource {uri!r}; there are {', '.join(self._kept)}")
        return TextResourceContents(uri=uri, mime_type=entry.resource.mime_type, text=await entry.load_text(caller))
