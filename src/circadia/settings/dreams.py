"""Section `dreams`: memory folders of coding agents over which the server dreams (DREAM-31)."""

from typing import Literal

from pydantic import Field

from circadia.settings.section import Section


class DreamSettings(Section):
    """A memory folder. Whoever names it here agrees to dreams over it."""

    folder: str = Field(
        min_length=1,
        description="The folder, with an index `MEMORY.md`, or a project that Claude Code keeps one for; `~` is the "
        "home of the server's user.",
    )
    transcripts: str | None = Field(
        None,
        min_length=1,
        description="Folder of the agent's sessions; by default the one around the folder, if it has any.",
    )
    project: str | None = Field(
        None, min_length=1, description="Read only sessions of this project, if the folder has those of several."
    )
    mode: Literal["propose", "auto"] = Field(
        "propose", description="`propose` waits for a person; `auto` writes, once a person has accepted one dream."
    )
    watch: bool = Field(
        True, description="Begin a dream when one is due (five new sessions, a day passed); else only when asked."
    )
    agents: tuple[str, ...] = Field(
        (),
        description="Agents that may ask for dreams, see and undo them by MCP; `session:name` outside the session "
        "`default`.",
    )
