"""A memory folder with sessions beside it, and a model that answers by the words of a script."""

import json
import os
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel

from circadia.clock import SystemClock
from circadia.llm.chat_model import Prompt
from circadia.records.dream_job import DreamMode
from circadia.server.dream_wiring import open_dream
from circadia.settings.load import settings_from
from circadia.sleeptime.markdown.dream import Dream
from circadia.sleeptime.markdown.dream_state import DreamReport, load_state, save_state
from circadia.sleeptime.markdown.folder_edits import EntryDrop, EntryEdit, FolderAnswer
from circadia.sleeptime.markdown.sessions import SessionIntake
from circadia.sleeptime.operations.consolidate import ConsolidationAnswer
from circadia.sleeptime.publish.claim_verifier import ClaimVerdict, ClaimVerdicts
from circadia.testing.scripted_model import ScriptedChatModel

T = TypeVar("T")

HOUR_AGO = timedelta(hours=1)
_ROW = re.compile(r"^([en]\d+)(?: \[[^\]]*\])? (.*)$", re.M)


class FactScript:
    """Writes an entry for each pattern that matches lines of a prompt: in place of the matching entries, or anew."""

    def __init__(self, facts: Mapping[str, str], file: str = "learned.md") -> None:
        """`facts` are texts by a pattern for their sources; `file` is that of new ones."""
        self.facts = facts
        self.file = file

    def __call__(self, prompt: Prompt, output: type[BaseModel]) -> BaseModel:
        if output is FolderAnswer:
            rows = _ROW.findall(prompt.data)
            edits: list[EntryEdit] = []
            for pattern, text in self.facts.items():
                ids = [key for key, line in rows if re.search(pattern, line) and "description: " not in line]
                old = [key for key in ids if key.startswith("n")]
                if any(key.startswith("e") for key in ids):
                    new = {} if old else {"file": self.file, "description": "What was said in sessions"}
                    edits.append(EntryEdit(text=text, ids=ids, replaces=old, **new))
            return FolderAnswer(edits=edits)
        if output is ConsolidationAnswer:  # of a bank, not a folder
            return ConsolidationAnswer(notes=[])
        assert output is ClaimVerdicts
        claims = re.findall(r"^(c\d+)", prompt.data, re.M)
        return ClaimVerdicts(verdicts=[ClaimVerdict(id=key, verdict="said") for key in claims])


class EditScript:
    """Writes the edits of a list, each once its lines are in the prompt; lines are named by patterns.

    Of an edit `said` matches lines of sessions and logs, `replaces` entries of its file; of a drop `id` does.
    """

    def __init__(self, *edits: Mapping[str, str], drop: Sequence[Mapping[str, str]] = ()) -> None:
        self._edits = edits
        self._drop = drop

    def __call__(self, prompt: Prompt, output: type[BaseModel]) -> BaseModel:
        if output is not FolderAnswer:
            return FactScript({})(prompt, output)
        edits = [
            EntryEdit(
                **{key: text for key, text in edit.items() if key not in ("said", "replaces")}, ids=said,
                replaces=find_ids(prompt, edit["replaces"], edit["file"]) if "replaces" in edit else [],
            )
            for edit in self._edits
            if (said := find_ids(prompt, edit["said"]))
        ]  # fmt: skip
        drop = [
            EntryDrop(id=key, why=each["why"], ids=find_ids(prompt, each["said"]) if "said" in each else [])
            for each in self._drop
            for key in find_ids(prompt, each["id"], each["file"])
        ]
        return FolderAnswer(edits=edits, drop=drop)


def find_ids(prompt: Prompt, pattern: str, file: str = "") -> list[str]:
    """Return the ids of the lines that match: entries of a file, or what was said."""
    data = prompt.data
    if file:
        data = next((part for part in data.split("\n## File ") if re.match(rf"{re.escape(file)}\b", part)), "")
    return [key for key, line in _ROW.findall(data) if re.search(pattern, line) and (file or key.startswith("e"))]


def prompt_of(request: Mapping[str, Any]) -> Prompt:
    """Return the prompt in the body of a request to a provider."""
    system, *data = [str(message["content"]) for message in request["messages"]]
    return Prompt(rules=system, data="\n".join(data))


class DreamStand:
    def __init__(self, top: Path, facts: Mapping[str, str] | None = None) -> None:
        self.root = top / "memory"
        self.transcripts = top / "sessions"
        self.project = top / "project"
        for folder in (self.root, self.transcripts, self.project):
            folder.mkdir()
        self.model = ScriptedChatModel(FactScript(facts or {}))
        self.clock = SystemClock()
        self.settings: dict[str, Any] = {}
        self.write("MEMORY.md", "# Memory\n\n- [Database](database.md) — where the databases are\n")
        self.write(
            "database.md",
            "---\nname: database\ndescription: where the databases are\ntype: project\n---\n\n"
            "- The staging database of the project Heron is on port 5433.\n"
            "- The production database is on port 5432.\n",
        )
        save_state(self.root, load_state(self.root), enabled_at=self.clock.now())

    def write(self, name: str, text: str | bytes) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    def age(self, path: Path) -> None:
        """Make a file one that was last written an hour ago."""
        at = (datetime.now(UTC) - HOUR_AGO).timestamp()
        os.utime(path, (at, at))

    def read(self, name: str) -> str:
        return (self.root / name).read_text("utf-8")

    def contents(self) -> dict[str, bytes]:
        """Return the files of the folder, without Circadia's own."""
        files = [path for path in self.root.rglob("*") if path.is_file() and ".circadia" not in path.parts]
        return {str(path.relative_to(self.root)): path.read_bytes() for path in files}

    def session(self, name: str, *texts: str, at: datetime | None = None, **more: Any) -> Path:
        """Write a session of Claude Code that ended an hour ago, or at `at`."""
        ended = at or datetime.now(UTC) - HOUR_AGO
        lines: list[dict[str, Any]] = []
        for number, text in enumerate(texts):
            when = ended - timedelta(seconds=60 * (len(texts) - number))
            lines.append({
                "type": "user", "uuid": f"{name}-{number}", "sessionId": name, "cwd": str(self.project),
                "timestamp": when.isoformat(), "message": {"role": "user", "content": text}, **more,
            })  # fmt: skip
        path = self.transcripts / f"{name}.jsonl"
        path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), "utf-8")
        os.utime(path, (ended.timestamp(), ended.timestamp()))
        return path

    async def dream(self, mode: DreamMode = DreamMode.PROPOSE, **more: Any) -> DreamReport:
        return await self.act(lambda dream: dream.run(mode, self.intake(), **more))

    async def accept(self, *files: Any) -> DreamReport:
        return await self.act(lambda dream: dream.accept(files))

    async def act(self, act: Callable[[Dream], Awaitable[T]]) -> T:
        settings = settings_from(self.settings)
        async with open_dream(self.root, settings, {}, self.clock, models=(self.model, None)) as dream:
            return await act(dream)

    def intake(self) -> SessionIntake:
        return SessionIntake(self.clock, self.transcripts, folder=self.root)

    @property
    def asked(self) -> Sequence[Prompt]:
        return self.model.asked
