"""The resources: how to work here, and how things stand."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from importlib.resources import files
from typing import Final

from mcp_types import Resource, ResourceTemplate, TextResourceContents

from circadia.errors import NotFound
from circadia.mcp_server.caller import Caller
from circadia.mcp_server.context import CONTEXT, context_of
from circadia.mcp_server.state import state_of

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
