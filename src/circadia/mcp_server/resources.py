"""The resources: how to work here, and how things stand."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from importlib.resources import files
from typing import Final
from urllib.parse import parse_qsl

from mcp_types import Resource, ResourceTemplate, TextResourceContents

from circadia.errors import InvalidRequest, NotFound
from circadia.mcp_server.caller import Caller
from circadia.mcp_server.state import state_of
from circadia.memory.episodes import is_text
from circadia.memory.search.question_counter import may_keep_question
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


INSTRUCTION: Final = "circadia://instruction"
STATE: Final = "circadia://state"


def instruction_text() -> str:
    """Return the text that tells agents how to work in a session."""
    return (files("circadia.mcp_server") / "instruction.md").read_text("utf-8")


@dataclass(frozen=True, kw_only=True, slots=True)
class _ResourceEntry:
    """A resource with what reads it."""

    resource: Resource
    """As `resources/list` shows it."""
    load_text: Callable[[Caller], Awaitable[str]]
    """Returns its text."""


class Resources:
    """Lists and reads the resources."""

    def __init__(self, instruction: str) -> None:
        async def read_instruction(caller: Caller) -> str:
            own = caller.principal.agent
            who = f"You are `{own.name}` in the session `{own.session}`." if own else "You are the operator."
            return f"{instruction}\n{who}\n"

        async def read_state(caller: Caller) -> str:
            return (await state_of(caller)).decode()

        async def read_context(caller: Caller) -> str:
            return await context_of(caller, "")

        kept = (
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
                    description="The session now: you, the agents and who is asleep, your open threads.",
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
        self._kept = {each.resource.uri: each for each in kept}

    def list_resources(self) -> list[Resource]:
        """Return what `resources/list` shows."""
        return [each.resource for each in self._kept.values()]

    def list_templates(self) -> list[ResourceTemplate]:
        """Return what `resources/templates/list` shows."""
        told = ResourceTemplate(
            uri_template=f"{CONTEXT}{{?q,bank,user}}",
            name="context for a question",
            description="The same with what fits the question `q`, of another `bank` of yours, or of an end `user`.",
            mime_type="text/markdown",
        )
        return [told]

    async def read_resource(self, caller: Caller, uri: str) -> TextResourceContents:
        """Return the resource's contents.

        Raises:
            NotFound: there is no such resource.
        """
        address, mark, query = uri.partition("?")
        if mark and address == CONTEXT:
            text = await context_of(caller, query)
            return TextResourceContents(uri=uri, mime_type="text/markdown", text=text)
        kept = self._kept.get(uri)
        if kept is None:
            raise NotFound(f"no resource {uri!r}; there are {', '.join(self._kept)}")
        return TextResourceContents(uri=uri, mime_type=kept.resource.mime_type, text=await kept.load_text(caller))
