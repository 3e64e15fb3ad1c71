"""The diffs of the how-to are those that a dream makes, one for each kind of folder."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from circadia.sleeptime.markdown import publication
from circadia.testing.scripted_model import ScriptedChatModel
from tests.sleeptime.markdown.dream_stand import DreamStand, EditScript

pytestmark = pytest.mark.spec("DREAM-40", "DREAM-44")

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "dream-over-a-memory-folder.md"
OLD, NEW = "Heron's staging database is on port 5433", "Heron's staging database is on port 5499"
MOVED = {"said": "5499", "replaces": "5433", "text": f"{NEW}."}
HERON = (
    "---\nname: heron\ndescription: staging on 5433\nmetadata:\n  type: project\n---\n\n"
    f"{OLD}.\n\n**Why:** production has 5432.\n"
)


@dataclass(frozen=True, kw_only=True)
class Kind:
    files: Mapping[str, str]
    edits: tuple[Mapping[str, str], ...]


KINDS = {
    "Claude Code": Kind(
        files={"MEMORY.md": "# Memory\n\n- [Heron](heron.md) — staging on 5433\n", "heron.md": HERON},
        edits=({**MOVED, "file": "heron.md", "description": "staging on 5499"},),
    ),
    "Codex": Kind(
        files={
            "memory_summary.md": f"## Heron\n\n- {OLD}.\n",
            "MEMORY.md": f"# Task Group: heron\n\n- {OLD}, says Ann.\n",
        },
        edits=(
            {**MOVED, "file": "memory_summary.md"},
            {**MOVED, "file": "MEMORY.md", "text": f"{NEW}, says Ann."},
        ),
    ),
    "OpenClaw": Kind(
        files={
            "AGENTS.md": "# Agents\n", "MEMORY.md": f"# Long-term memory\n\n* {OLD}.\n",
            "memory/2026-11-20.md": f"- {OLD}.\n",
        },
        edits=({**MOVED, "file": "MEMORY.md"},),
    ),
    "Letta Code": Kind(
        files={"system/human.md": "---\ndescription: The person\nlimit: 5000\n---\n\n- Ann.\n"},
        edits=({"said": "5499", "file": "system/ports.md", "text": f"{NEW}.", "description": "Ports of Heron"},),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", KINDS)
async def test_the_page_has_the_diff_of_each_kind(tmp_path: Path, name: str) -> None:
    stand = DreamStand(tmp_path)
    for file in ("MEMORY.md", "database.md"):
        (stand.root / file).unlink()
    for file, text in KINDS[name].files.items():
        stand.write(file, text)
    stand.session("s1", f"{NEW} now, says Ann.")
    stand.model = ScriptedChatModel(EditScript(*KINDS[name].edits))
    report = await stand.dream()
    diff = re.sub(
        r"(?m)^--- [^\n]*\n\+\+\+ \.circadia/.*\n(?:[@+ \\].*\n)*", "", publication.show_diff(stand.root, report.id)
    )
    diff = re.sub(r"line 1, \d{4}-\d\d-\d\d", "line 1, 2026-11-26", diff)
    section = PAGE.read_text("utf-8").split(f"**{name}** ")[1]
    assert section.split("```diff\n")[1].split("```")[0] == diff
