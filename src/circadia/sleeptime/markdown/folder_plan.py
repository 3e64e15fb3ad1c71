"""What the changes of a dream mean for the files of its folder (DREAM-10, DREAM-11, DREAM-44).

A new text goes where its edit says: in the place of each entry that it replaces, else into the file and section that it
names. Without a file it joins the entry that it is most about, or what the agent reads first. An entry that leaves its
file is kept below `.circadia/retired`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import PurePosixPath
from typing import Any, Final, cast

from circadia.errors import Conflict, InvalidRequest
from circadia.ids import BankId, EpisodeId
from circadia.records.change import Change, ChangeKind
from circadia.records.episode import Episode
from circadia.records.note import Note
from circadia.sleeptime.markdown.edits import (
    Edit,
    EntryAddition,
    EntryChange,
    RetiredEntry,
    apply_edits,
    read_as_entry,
    render_source,
    retired_entry,
)
from circadia.sleeptime.markdown.entries import parse_entries, render_front_matter
from circadia.sleeptime.markdown.folder_bank import FolderEntry, FolderSnapshot
from circadia.sleeptime.markdown.memory_folder import INDEX_NAMES, KINDS, MEMORY_NAMES
from circadia.sleeptime.proposals import projected_notes
from circadia.sleeptime.proposals.similarity import RelatedIndex
from circadia.sleeptime.publish.claim_verifier import MARKDOWN

_REPLACED: Final = "a newer entry says what holds"
_CHANGED: Final = "what it replaces was changed or removed meanwhile, so it was not written"
MIN_SIMILARITY: Final = 0.12
"""Cosine above which two notes are on the same subject, as in `operations/consolidate.py`."""


@dataclass(kw_only=True, slots=True)
class FolderPlan:
    contents: dict[PurePosixPath, bytes] = field(default_factory=dict[PurePosixPath, bytes])
    """New contents by file."""
    edits: dict[PurePosixPath, list[Edit]] = field(default_factory=dict[PurePosixPath, list[Edit]])
    described: dict[PurePosixPath, str] = field(default_factory=dict[PurePosixPath, str])
    """What is to be said of files, in the index too."""
    files: dict[int, set[PurePosixPath]] = field(default_factory=dict[int, set[PurePosixPath]])
    """The files of each change, by its number."""
    gone: list[RetiredEntry] = field(default_factory=list[RetiredEntry])
    """Entries that leave their files: replaced and retired ones."""
    left_out: dict[int, str] = field(default_factory=dict[int, str])
    """Why a change is not in the plan, by its number."""
    added: int = 0
    replaced: int = 0
    retired: int = 0
    """Entries that leave the folder without a new one in their place."""

    def add(self, path: PurePosixPath, change: Change, *edits: Edit) -> None:
        self.edits.setdefault(path, []).extend(edits)
        self.files.setdefault(change.number, set()).add(path)


class FolderPlanner:
    def __init__(
        self, snapshot: FolderSnapshot, notes: Sequence[Note], sources: Mapping[EpisodeId, Episode], now: datetime
    ) -> None:
        """`notes` are those of the bank, `sources` the episodes of new ones."""
        self._snapshot = snapshot
        self._notes = notes
        self._sources = sources
        self._now = now
        self._entries = snapshot.texts
        self._descriptions: dict[PurePosixPath, str] = {}
        """What the changes say of files."""

    def plan(self, changes: Sequence[Change]) -> FolderPlan:
        """Return the new contents of all files that these changes concern; what cannot be written is left out."""
        left_out: dict[int, str] = {}
        while True:
            rest = [change for change in changes if change.number not in left_out]
            plan = self._draft(rest)
            failed = self._write(plan)
            left_out |= {**plan.left_out, **failed}
            if not failed:
                plan.left_out = left_out
                return plan

    def _draft(self, changes: Sequence[Change]) -> FolderPlan:
        draft = FolderPlan()
        self._documents = dict(self._snapshot.documents)
        added = {change.target: change for change in changes if change.kind is ChangeKind.ADD_NOTE}
        gone = {text_of(change): change for change in changes if change.kind is ChangeKind.RETIRE_NOTE}
        drafts = {text_of(change): change for change in added.values()}
        added = {key: change for key, change in added.items() if text_of(change) not in gone}
        self._descriptions = {
            PurePosixPath(place["file"]): text_of(change)
            for change in added.values()
            for place in places_of(change)
            if place.get("description")
        }
        for change in added.values():
            for place in places_of(change):
                self._place(change, _follow(place, drafts), gone, draft)
        for text, change in gone.items():
            instead = str((change.after or {}).get("instead", ""))
            if text in drafts:  # written and replaced in the same run
                draft.files.setdefault(change.number, set())
            elif not instead or instead not in added:
                self._retire(change, instead, draft)
        return draft

    def _place(self, change: Change, place: Mapping[str, Any], gone: Mapping[str, Change], draft: FolderPlan) -> None:
        """Add the edits for one place of a new text."""
        path, text = PurePosixPath(str(place.get("file", ""))), text_of(change)
        there = [
            entry for old in place.get("replaces", ()) for entry in self._entries.get(old, ()) if entry.file == path
        ]
        if any(entry.file == path for entry in self._entries.get(text, ())):
            draft.files.setdefault(change.number, set())
            return  # it stands there already
        if place.get("replaces") and not there:
            draft.left_out[change.number] = _CHANGED
            return
        if place.get("description"):
            self._describe(change, path, there, draft)
            return
        old = [entry for entry in there if entry.note_text in gone and not entry.is_pinned]
        source, markdown = self._render_source(change), _markdown_of(change)
        if old:
            first, *others = old
            draft.replaced += 1
            draft.retired += len(others)
            draft.add(path, change, EntryChange(entry=first.block, text=markdown, source=source))
            draft.add(path, change, *(EntryChange(entry=entry.block) for entry in others))
            for entry in old:
                draft.files.setdefault(gone[entry.note_text].number, set()).add(path)
                self._keep(entry, _REPLACED, text, draft)
            return
        draft.added += 1
        path, headings = self._find_place(change, path, str(place.get("section", "")))
        draft.add(path, change, EntryAddition(text=markdown, headings=headings, source=source))

    def _describe(self, change: Change, path: PurePosixPath, old: Sequence[FolderEntry], draft: FolderPlan) -> None:
        document = self._documents.get(path)
        if document is None:
            draft.left_out[change.number] = "the file that it describes was not made"
            return
        if path in self._snapshot.documents and path not in self._snapshot.descriptions:
            draft.left_out[change.number] = "the folder has no place for a description of that file"
            return
        edits: list[Edit] = []
        if document.description is not None and old:
            edits = [EntryChange(entry=document.description, text=text_of(change))]
        try:
            apply_edits(document, edits)  # alone, so that it keeps no entry from being written
        except Conflict as error:
            draft.left_out[change.number] = error.message
            return
        draft.described[path] = text_of(change)
        draft.add(path, change, *edits)

    def _retire(self, change: Change, instead: str, draft: FolderPlan) -> None:
        """Take an entry out of the files that the change names, or of all."""
        files = cast("Sequence[str]", (change.after or {}).get("files", ()))
        entries = [
            entry
            for entry in self._entries.get(text_of(change), ())
            if not entry.is_pinned and entry.block.is_entry and (not files or str(entry.file) in files)
        ]
        if instead and all(note.id != instead for note in self._notes):
            draft.left_out[change.number] = "what takes its place was refused"
        elif not entries:
            draft.left_out[change.number] = "its entry is pinned, read-only or gone"
        else:
            new = next((note.text for note in self._notes if note.id == instead), "nothing")
            for entry in entries:
                draft.retired += 1
                draft.add(entry.file, change, EntryChange(entry=entry.block))
                self._keep(entry, _REPLACED if instead else change.why, new, draft)

    def _keep(self, entry: FolderEntry, why: str, instead: str, draft: FolderPlan) -> None:
        document, day = self._documents[entry.file], self._now.date()
        draft.gone.append(retired_entry(document, entry.block, path=entry.file, why=why, instead=instead, day=day))

    def _find_place(
        self, change: Change, path: PurePosixPath, section: str
    ) -> tuple[PurePosixPath, tuple[str, ...] | None]:
        """Return the file and the headings for a new entry: those that its edit names, else of the nearest entry."""
        if path.name and path not in self._documents:
            self._documents[path] = parse_entries(self._front_matter(path, change))
        draft = projected_notes.build_note(change, BankId(""), self._now)
        near = RelatedIndex(self._notes).find_nearest_each([draft], 3, min_similarity=MIN_SIMILARITY)[0]
        entries = [entry for note in near for entry in self._entries.get(note.text, ()) if entry.block.is_entry]
        entries = [
            entry
            for entry in entries
            if not self._documents[entry.file].is_fixed and (not path.name or entry.file == path)
        ]
        if not path.name:
            path = entries[0].file if entries else self._first_read()
            self._documents.setdefault(path, parse_entries(b"# Memory\n"))
        blocks = self._documents[path].blocks
        wanted = tuple(part.lstrip("# ") for part in section.split(" / "))
        found = (block.headings for block in blocks if section)
        headings = next((each for each in found if each[-len(wanted) :] == wanted or each[-1:] == (section,)), None)
        return path, headings or (entries[0].block.headings if entries else None)

    def _first_read(self) -> PurePosixPath:
        """Return the file that the agent has in each prompt."""
        folder = self._snapshot.folder
        loaded = (file.path for file in folder.files if folder.is_loaded(file.path))
        return next((path for path in loaded if not self._documents[path].is_fixed), PurePosixPath(INDEX_NAMES[0]))

    def _front_matter(self, path: PurePosixPath, change: Change) -> bytes:
        """Return the front matter of a new file, in the form that the folder's files have."""
        folder = self._snapshot.folder
        files = [file for file in folder.topics if not (file.is_log or file.path.name in MEMORY_NAMES)]
        slugs = [file.document.front_matter.get("name") == slug_of(file.path.stem) != file.path.stem for file in files]
        kind = next((kind for kind in KINDS if path.stem.startswith(kind)), "reference")
        description = self._descriptions.get(path) or text_of(change).splitlines()[0][:150]
        name = slug_of(path.stem) if any(slugs) else path.stem
        return render_front_matter([file.document for file in files], name=name, description=description, kind=kind)

    def _write(self, draft: FolderPlan) -> Mapping[int, str]:
        """Make the new contents; return why changes failed, by their numbers."""
        failed: dict[int, str] = {}
        for path, edits in draft.edits.items():
            if not edits:  # it is only described in the index
                continue
            try:
                if path not in self._snapshot.documents and (obstacle := self._snapshot.folder.find_obstacle(path)):
                    raise Conflict(obstacle)
                draft.contents[path] = apply_edits(self._documents[path], edits)
            except (Conflict, InvalidRequest) as error:
                failed |= {number: f"{path}: {error.message}" for number, of in draft.files.items() if path in of}
        return failed

    def _render_source(self, change: Change) -> str:
        """Return the comment for the newest turn that a note rests on; empty if it rests on entries alone."""
        evidence = cast("Sequence[str]", (change.after or {}).get("evidence", ()))
        turns = [self._sources[EpisodeId(key)] for key in evidence if EpisodeId(key) in self._sources]
        turns = [turn for turn in turns if "session" in turn.metadata]
        if not turns:
            return ""
        newest = max(turns, key=lambda turn: (turn.at, turn.number))
        said = newest.metadata
        return render_source(str(said["session"]), int(cast("int", said["line"])), newest.at.date())


def slug_of(stem: str) -> str:
    """Return the name that Claude Code gives a file `feedback_tests.md` in its front matter."""
    return stem.replace("_", "-")


def _follow(place: Mapping[str, Any], drafts: Mapping[str, Change]) -> Mapping[str, Any]:
    """Return a place with, for each text of the same run that it replaces, what that one was to replace."""
    replaces: list[str] = []
    for text in place.get("replaces", ()):
        if text in drafts:
            for other in places_of(drafts[text]):
                replaces += other.get("replaces", ())
                place = {**place, "file": place.get("file") or other.get("file", "")}
        else:
            replaces.append(text)
    return {**place, "replaces": replaces}


def places_of(change: Change) -> Sequence[Mapping[str, Any]]:
    places = cast("Sequence[Mapping[str, Any]]", (change.after or {}).get("places", ()))
    return places or [{}]


def text_of(change: Change) -> str:
    """Return the text that a change adds, or takes out."""
    return str((change.after or {}).get("text") or (change.before or {}).get("text", ""))


def _markdown_of(change: Change) -> str:
    """Return a text as it was written, unless the judge has left only a part of it."""
    markdown, text = str((change.after or {}).get(MARKDOWN, "")), text_of(change)
    return markdown if read_as_entry(markdown) == text else text
