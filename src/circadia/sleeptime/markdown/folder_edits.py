"""The edits of a memory folder that a model writes: it sees the folder as the agent does, and names the file of each.

Each edit is a change of the folder's bank, checked by the same rules and judge as any other. Beside the text, `after`
has what its planner needs: `markdown`, the text as it is to be written, and `places`, each with `file` (empty: the
planner chooses), `replaces` (texts of that file), `section` and `description` (whether the text describes the file).
A retirement has the `files` that the entry leaves.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from pathlib import PurePosixPath
from typing import Any, Final, cast

from pydantic import BaseModel, Field

from circadia.errors import InvalidRequest
from circadia.ids import EpisodeId
from circadia.memory.context import estimate_tokens
from circadia.records.change import Change, ChangeKind
from circadia.records.episode import Episode, EpisodeKind
from circadia.records.note import Note, NoteKind
from circadia.sleeptime.grounding.figures import find_calendar_dates
from circadia.sleeptime.grounding.source_check import find_context
from circadia.sleeptime.grounding.wording import one_line
from circadia.sleeptime.markdown.anchored_folder import check_path
from circadia.sleeptime.markdown.edits import read_as_entry
from circadia.sleeptime.markdown.entries import label_of, without_comments
from circadia.sleeptime.markdown.folder_bank import FolderEntry, FolderSnapshot
from circadia.sleeptime.markdown.memory_folder import DAY_NAME, INDEX_NAMES, MemoryFile, comparable_path
from circadia.sleeptime.operations.consolidate import ANSWER_TOKENS, Consolidate, fetch_sources
from circadia.sleeptime.proposals import projected_notes
from circadia.sleeptime.proposals.changes import add_note, retire_note
from circadia.sleeptime.proposals.operation import ModelQueryFunction, PageContext, RefusedText, Step
from circadia.sleeptime.proposals.prompts import WHOLE, NumberedLines, build_prompt
from circadia.sleeptime.proposals.segments import Segment
from circadia.sleeptime.proposals.similarity import RelatedIndex
from circadia.sleeptime.publish.claim_verifier import MARKDOWN

FOLDER_TOKENS: Final = 12_000
"""Estimated tokens of the folder in a question; of a larger one, the entries that are nearest to what was said."""
NEAREST: Final = 120
"""Entries of a larger folder that are shown."""
_NO_DESCRIPTION: Final = "a new file needs a `description`, by which the agent knows when to open it"
_NOT_OVER: Final = "neither a line of now nor a date shows that it is over"


class EntryEdit(BaseModel):
    file: str = Field(default="", max_length=200)
    section: str = Field(default="", max_length=200)
    text: str = Field(default="", max_length=4_000)
    ids: list[str] = Field(max_length=40)
    replaces: list[str] = Field(default_factory=list[str], max_length=20)
    description: str = Field(default="", max_length=200)


class EntryDrop(BaseModel):
    id: str
    why: str = Field(max_length=300)
    ids: list[str] = Field(default_factory=list[str], max_length=10)


class FolderAnswer(BaseModel):
    edits: list[EntryEdit] = Field(max_length=40)
    drop: list[EntryDrop] = Field(default_factory=list[EntryDrop], max_length=40)


class OpenFolder:
    """The folder that a dream has open."""

    def __init__(self) -> None:
        self.snapshot: FolderSnapshot | None = None

    def check_pinned(self, change: Change, rows: Mapping[EpisodeId, Episode]) -> str:
        """Return why a change may not be made, empty if it may: a rule of publications."""
        if self.snapshot is None or change.kind is not ChangeKind.RETIRE_NOTE:
            return ""
        entries = self.snapshot.texts.get(str((change.before or {}).get("text")), ())
        return "the entry is pinned, or its file is read-only" if any(each.is_pinned for each in entries) else ""


class FolderSheet:
    """The folder in lines of a prompt, with an id for each entry."""

    def __init__(self, snapshot: FolderSnapshot, notes: Sequence[Note], said: Sequence[Episode]) -> None:
        self.lines = NumberedLines()
        self._snapshot = snapshot
        self._notes = {note.text: note for note in notes}
        self._entries: dict[str, FolderEntry] = {}
        self._shown = self._choose(notes, said)
        for file in snapshot.folder.files:
            if not file.is_log:
                self._add_file(file)
        logs = ", ".join(str(file.path) for file in snapshot.folder.files if file.is_log)
        if logs:
            self.lines.add_heading("Logs of single days, which are sources")
            self.lines.add_line(logs)
        texts = snapshot.texts
        drafts = [note for note in notes if note.text not in texts and note.kind is not NoteKind.SUMMARY]
        if drafts:
            self.lines.add_heading("Written in this run")
            self.lines.add_notes(drafts)

    def entries_of(self, ids: Sequence[str]) -> Sequence[FolderEntry]:
        """Return the entries with these ids, each once."""
        keys = (key.strip("[]() .,;:").lower() for key in ids)
        return list({id(entry): entry for key in keys if (entry := self._entries.get(key))}.values())

    def note_of(self, entry: FolderEntry) -> Note | None:
        return self._notes.get(entry.note_text)

    def _choose(self, notes: Sequence[Note], said: Sequence[Episode]) -> set[str] | None:
        """Return the texts to show of a folder that is too large for a question; None to show all."""
        if sum(estimate_tokens(entry.text) for entry in self._snapshot.entries) <= FOLDER_TOKENS:
            return None
        return {note.text for note in RelatedIndex(notes).find_nearest(said, NEAREST)}

    def _add_file(self, file: MemoryFile) -> None:
        snapshot, path, document = self._snapshot, file.path, file.document
        is_loaded = snapshot.folder.is_loaded(path)
        is_index = file is snapshot.folder.index
        marks = ["index"] * is_index + ["always read"] * is_loaded + ["pinned"] * document.is_pinned
        named = f" ({', '.join(marks)})" if marks else ""
        self.lines.add_heading(f"File {path}{named}")
        if (description := snapshot.descriptions.get(path)) is not None:
            self._add_entry(description, f"description: {description.text}")
        by_block = {entry.block: entry for entry in snapshot.entries if entry.file == path}
        hidden = 0
        for block in document.blocks:
            entry = by_block.get(block)
            raw = without_comments(document.raw(block).decode("utf-8", "replace")).strip()
            if entry is None:
                for line in raw.splitlines():
                    self.lines.add_line(f"| {line}")
            elif self._shown is None or entry.note_text in self._shown:
                self._add_entry(entry, raw)
            else:
                hidden += 1
        if hidden:
            self.lines.add_line(f"| … {hidden} more entries")

    def _add_entry(self, entry: FolderEntry, text: str) -> None:
        note = self.note_of(entry)
        if note is None:
            self.lines.add_line(f"| {text}")
        else:
            self._entries[self.lines.add_note_as(note, f"(pinned) {text}" if entry.is_pinned else text)] = entry


class FolderConsolidation(Consolidate):
    """Consolidates what was said in sessions into the files of a folder (DREAM-44)."""

    def __init__(self, folder: OpenFolder) -> None:
        super().__init__()
        self._folder = folder

    async def propose(self, step: Step, view: PageContext, ask: ModelQueryFunction) -> Sequence[Change]:
        """Return the edits that the model writes for a step."""
        snapshot = self._folder.snapshot
        if snapshot is None:
            return ()
        parts = cast("Sequence[Segment]", step.data["segments"])
        notes = projected_notes.project_notes(view)
        sheet = FolderSheet(snapshot, notes, step.episodes)
        for part in parts:
            first = part.episodes[0]
            is_log = first.kind is EpisodeKind.FACT and "session" in first.metadata
            sheet.lines.add_heading(f"Log of {first.metadata['session']}" if is_log else "Said now")
            sheet.lines.add_episodes(part.episodes, longest=WHOLE)
        refused = cast("Sequence[RefusedText]", step.data.get("refused", ()))
        sheet.lines.add_refusals(refused)
        prompt = build_prompt("memory_folder", view, sheet.lines.text, about=("refused",) if refused else ())
        answer = await ask(prompt, FolderAnswer, most_tokens=max(1_000, ANSWER_TOKENS * len(step.episodes)))
        page = {episode.id for part in parts for episode in part.episodes}
        edits = _AnswerReader(self.name, view, snapshot, sheet, page)
        for written in answer.edits:
            await edits.add_edit(written)
        for drop in answer.drop:
            edits.add_drop(drop)
        await edits.add_descriptions()
        return edits.changes


class _AnswerReader:
    """Turns one answer into changes: one for each text, and one for each note that leaves files."""

    def __init__(
        self, operation: str, view: PageContext, snapshot: FolderSnapshot, sheet: FolderSheet, page: set[EpisodeId]
    ) -> None:
        self._operation = operation
        self._view = view
        self._snapshot = snapshot
        self._sheet = sheet
        self._page = page
        self._known = {comparable_path(file.path): file for file in snapshot.folder.files}
        self._described = {comparable_path(path) for path in snapshot.documents}
        self._added: dict[str, Change] = {}
        """By text."""
        self._retired: dict[str, Change] = {}
        """By note."""
        self._of_file: dict[str, list[EntryEdit]] = {}

    @property
    def changes(self) -> Sequence[Change]:
        return [*self._added.values(), *self._retired.values()]

    async def add_edit(self, written: EntryEdit) -> None:
        """Add the text of an edit at its place, or where each entry stands that it replaces; and its description."""
        replaced = [entry for entry in self._sheet.entries_of(written.replaces) if entry.block.is_entry]
        path, why_not = self._find_file(written)
        text = "\n".join(map(one_line, written.text.splitlines()))
        by_file: dict[str, list[FolderEntry]] = {}
        for entry in replaced:
            by_file.setdefault(str(entry.file), []).append(entry)
        drafts = self._sheet.lines.resolve_ids(written.replaces).notes
        drafts = [note for note in drafts if note.text not in self._snapshot.texts]
        for file, entries in (by_file or {path: []}).items() if text.strip() else ():
            await self._add_text(
                written, keep_labels(text, [entry.text for entry in entries]),
                {
                    "file": file, "section": written.section,
                    "replaces": [*(entry.note_text for entry in entries), *(note.text for note in drafts)],
                },
                [*(note for entry in entries if (note := self._sheet.note_of(entry))), *drafts], why_not,
            )  # fmt: skip
        if path and not why_not:
            self._of_file.setdefault(path, []).append(written)

    def add_drop(self, drop: EntryDrop) -> None:
        for entry in self._sheet.entries_of([drop.id]):
            note, said = self._sheet.note_of(entry), self._sheet.lines.resolve_ids(drop.ids).episodes
            if note is None or note.id in self._retired or not entry.block.is_entry:
                continue
            shown = bool(said) and projected_notes.is_trusted_enough(said, [note])
            refused = "" if shown or is_past(entry.text, self._view.now.date()) else _NOT_OVER
            self._retire(note, str(entry.file), why=one_line(drop.why), refused=refused)

    async def _add_text(
        self, written: EntryEdit, text: str, place: dict[str, Any], old: Sequence[Note], refused: str,
        *, longer: Sequence[EpisodeId] = (),
    ) -> None:  # fmt: skip
        """Add a text with its sources; what it replaces leaves its file if its sources are trusted enough."""
        named = self._sheet.lines.resolve_ids(written.ids)
        is_stale = not (named.unknown_ids or longer) and self._page.isdisjoint(row.id for row in named.episodes)
        sources = await fetch_sources(self._view, named.episodes, (*named.notes, *old))
        sources = [*sources, *(await self._view.look.fetch_episodes(longer)).values()]
        cited = {row.id: row.text for row in (*named.episodes, *named.notes)}
        others = [row for row in self._sheet.lines.list_rows() if row.text not in cited.get(row.id, "")]
        more, context = find_context(read_as_entry(text), sources, others)
        said = [*named.episodes, *(row for row in more if isinstance(row, Episode))]
        sources = await fetch_sources(self._view, [*sources, *said], [row for row in more if isinstance(row, Note)])
        if not read_as_entry(text):
            refused = "it has no text"
        change = add_note(
            self._view, self._operation, NoteKind.CONSOLIDATION, text, sources, unknown_ids=named.unknown_ids,
            context=context, why=f"what was said, {len(sources)} times",
            refused=refused or ("it rests on nothing that was said now" if is_stale else ""),
        )  # fmt: skip
        after = dict(change.after or {})
        markdown = str(after["text"])
        canonical = read_as_entry(markdown) or markdown
        if self._is_known(canonical) and not old:
            return
        is_refused = bool(refused or is_stale or named.unknown_ids)
        trusted = [note for note in old if projected_notes.is_trusted_enough(said or sources, [note])]
        if len(trusted) < len(old):
            place["replaces"] = [text for text in place["replaces"] if text in {note.text for note in trusted}]
        same = self._added.get(canonical)
        places = [*cast("Sequence[object]", (same.after or {}).get("places", ()) if same else ()), place]
        change = same or replace(change, after={**after, "text": canonical, MARKDOWN: markdown})
        self._added[canonical] = replace(change, after={**(change.after or {}), "places": places})
        for note in () if is_refused else trusted:
            why, file = f"{change.target} says what holds", str(place["file"])
            self._retire(note, file, why=why, instead=change.target)

    async def add_descriptions(self) -> None:
        """Add what is said of files, each with the sources of all its edits and entries."""
        for path, edits in self._of_file.items():
            if text := next((said for edit in reversed(edits) if (said := one_line(edit.description))), ""):
                ids = list(dict.fromkeys(key for edit in edits for key in edit.ids))
                await self._describe(EntryEdit.model_construct(ids=ids), text, path)

    async def _describe(self, written: EntryEdit, text: str, path: str) -> None:
        old = self._snapshot.descriptions.get(PurePosixPath(path))
        if old is not None and (old.is_pinned or old.text == text):
            return
        notes = [self._sheet.note_of(entry) for entry in self._snapshot.entries if str(entry.file) == path]
        longer = [key for note in notes if note for key in note.evidence]
        note = self._sheet.note_of(old) if old is not None else None
        place = {"file": path, "description": True, "replaces": [] if old is None else [old.note_text]}
        await self._add_text(written, text, place, [note] if note else [], "", longer=longer)

    def _retire(self, note: Note, file: str, *, why: str, instead: str | None = None, refused: str = "") -> None:
        """Let a note leave a file, for the first reason that there is."""
        change = self._retired.get(note.id)
        change = change or retire_note(self._view, self._operation, note, why=why, instead=instead)
        after = dict(change.after or {})
        files = [*cast("Sequence[str]", after.get("files", ())), file]
        after |= {"files": files, **({"refused": refused} if refused else {})}
        self._retired[note.id] = replace(change, after=after)

    def _is_known(self, text: str) -> bool:
        return (
            not text
            or text in self._snapshot.texts
            or any((change.after or {}).get("text") == text for change in self._view.proposed)
        )

    def _find_file(self, written: EntryEdit) -> tuple[str, str]:
        """Return the file that an edit names, empty if the folder has its own place for it; and why it may not be."""
        name = PurePosixPath(one_line(written.file).removeprefix("./"))
        name = name if name.suffix.lower() == ".md" else name.with_name(f"{name.name}.md") if name.name else name
        files = self._snapshot.folder.files
        if not self._snapshot.folder.is_tree and all(file.path.parent != name.parent for file in files):
            name = name.relative_to(name.parent)  # a folder that only this file is in is none where agents look
        known = self._known.get(comparable_path(name))
        if known is not None:
            return "" if known.is_log else str(known.path), ""
        if str(name) in ("", ".", INDEX_NAMES[0]) or not self._takes_files(name):
            return "", ""
        if not written.description.strip() and comparable_path(name) not in self._described:
            return str(name), _NO_DESCRIPTION
        self._described.add(comparable_path(name))
        return str(name), ""

    def _takes_files(self, path: PurePosixPath) -> bool:
        """Return whether the agent would find a new file: by a line of the index, or in its tree."""
        folder = self._snapshot.folder
        try:
            check_path(path)
        except InvalidRequest:
            return False
        if DAY_NAME.match(path.name) or folder.may_have(path) or folder.is_workspace:
            return False
        is_listed = folder.index is None or not any(entry.file == folder.index.path for entry in self._snapshot.entries)
        return folder.is_tree or is_listed or len(self._snapshot.descriptions) > 0


def keep_labels(text: str, old: Sequence[str]) -> str:
    """Return a text with the labelled paragraphs of what it replaces, such as `**Why:** …`, that it does not have."""
    labels = {label.casefold() for _, label in _labelled(text) if label}
    kept = [lines for entry in old for lines, label in _labelled(entry) if label and label.casefold() not in labels]
    return "\n".join([text, *dict.fromkeys(kept)])


def _labelled(text: str) -> Iterator[tuple[str, str]]:
    """Yield the parts of a text, each with its label; the first has none, unless it begins with one."""
    part: list[str] = []
    for line in text.splitlines():
        if label_of(line) and part:
            yield "\n".join(part), label_of(part[0])
            part = []
        part.append(line)
    if part:
        yield "\n".join(part), label_of(part[0])


def is_past(text: str, today: date) -> bool:
    """Return whether a text has dates, all of them before today."""
    days = [date(y, m, d) for found in find_calendar_dates(text) for y, m, d in found.readings if m and d]
    return bool(days) and max(days) < today
