"""What a memory folder needs without a model: its index, duplicates, dead links, open dates and sizes (DREAM-25).

Text is moved, never cut: what leaves a file stands in another one, or is kept as retired.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import date
from hashlib import sha256
from itertools import count
from pathlib import PurePosixPath
from typing import Final

from circadia.errors import CircadiaError, Conflict
from circadia.memory.relative_dates import first_open_date
from circadia.sleeptime.markdown.edits import Edit, EntryAddition, EntryChange, RetiredEntry, apply_edits, retired_entry
from circadia.sleeptime.markdown.entries import BOM, Document, MarkdownBlock, parse_entries, render_front_matter
from circadia.sleeptime.markdown.links import (
    IndexLine,
    SplitFile,
    append_part,
    find_index_lines,
    find_links,
    is_part_of,
    part_name,
    render_index_line,
    render_link,
    resolve_link,
    split_file,
    title_of,
    whole_name,
)
from circadia.sleeptime.markdown.memory_folder import (
    DAY_NAME,
    INDEX_NAMES,
    MAX_FILE_BYTES,
    MEMORY_NAMES,
    MemoryFolder,
    comparable_path,
)

MAX_FINDINGS: Final = 1_000
SHORTEST_REPEATED: Final = 20
"""Fewest characters of a text that is reported if several places have it."""
_LINK: Final = re.compile(r"\s*\[[^\]]*\]\([^)]*\)")


@dataclass(frozen=True, kw_only=True, slots=True)
class FolderLimits:
    index_lines: int = 200
    """Claude Code loads that many lines of an index, and 25,000 bytes."""
    index_bytes: int = 25_000
    topic_bytes: int = 40_000
    topic_files: int = 200


@dataclass(frozen=True, kw_only=True, slots=True)
class FolderUpkeep:
    contents: Mapping[PurePosixPath, bytes]
    """The new bytes of each file that changes or is new."""
    retired: Sequence[RetiredEntry]
    findings: Sequence[str]
    """What was found, and what was done or is to do: `PATH:LINE: message`."""

    def fingerprints(self) -> Mapping[PurePosixPath, str]:
        """Return a fingerprint of the changes by file; the parts of a file, between which entries move, are one."""
        parts: dict[PurePosixPath, list[bytes]] = {}
        for path, data in sorted(self.contents.items()):
            parts.setdefault(whole_name(path), []).append(bytes(path) + b"\0" + data)
        return {path: sha256(b"\0".join(found)).hexdigest() for path, found in parts.items()}

    def limit_to(self, files: Collection[PurePosixPath]) -> "FolderUpkeep":
        """Return the changes of these files alone, with all their parts."""
        contents = {path: data for path, data in self.contents.items() if whole_name(path) in files}
        return replace(
            self, contents=contents, retired=[each for each in self.retired if whole_name(each.path) in files]
        )


class UpkeepRun:
    """Reads a folder, and gathers what it needs."""

    def __init__(
        self, folder: MemoryFolder, *, day: date, changed: Mapping[PurePosixPath, bytes] | None = None,
        described: Mapping[PurePosixPath, str] | None = None, limits: FolderLimits | None = None,
    ) -> None:  # fmt: skip
        """`changed` holds contents that are to be written with the upkeep, such as a dream's.

        `described` are files that the index is to name, with what it says of each.
        """
        self._folder = folder
        self._files = {file.path: file for file in folder.files}
        self._day = day
        self._limits = limits or FolderLimits()
        self._before = changed or {}
        self._contents = dict(self._before)
        self._described = described or {}
        self._index = folder.index.path if folder.index else None
        fresh = PurePosixPath(INDEX_NAMES[0])
        if self._index is None and described and not folder.is_tree and not folder.find_obstacle(fresh):
            self._index = fresh
            self._contents.setdefault(self._index, b"# Memory\n")
        self._names = {*folder.names, *map(comparable_path, self._before)}
        self._retired: list[RetiredEntry] = []
        self._findings: list[str] = []
        self._links: dict[str, set[str]] = {}
        """For each file, the files to which it links, all as `comparable_path`."""
        self._places: dict[str, tuple[int, PurePosixPath, int]] = {}
        """For each text: the number of entries with it, and the first one's file and line."""

    def run(self) -> FolderUpkeep:
        """Return the upkeep. After it is written, a second run proposes no contents."""
        for path, message in self._folder.problems.items():
            self._report(path, None, message)
        for path in sorted({*self._files, *self._contents}):
            self._check_file(path, self._read(path))
        self._report_repeated()
        if not self._check_index():  # what is open at its end may go with its end
            self._check_sizes()
            self._check_index()
        self._check_sizes()
        if more := self._findings[MAX_FINDINGS:]:
            self._findings[MAX_FINDINGS:] = [f"{len(more)} more findings are left out"]
        return FolderUpkeep(
            contents={path: data for path, data in self._contents.items() if data != self._before.get(path)},
            retired=self._retired,
            findings=self._findings,
        )

    def _report(self, path: PurePosixPath, line: int | None, message: str) -> None:
        self._findings.append(f"{path}{f':{line}' if line else ''}: {message}")

    def _read(self, path: PurePosixPath) -> Document:
        """Return a file as it will be."""
        file = self._files.get(path)
        if path in self._contents:
            return parse_entries(self._contents[path], is_writable=file is None or file.document.is_writable)
        return self._files[path].document

    def _edit(self, path: PurePosixPath, document: Document, edits: Sequence[Edit]) -> bool:
        """Change a file; return whether it was possible, else with a finding."""
        try:
            self._contents[path] = apply_edits(document, edits)
        except CircadiaError as error:
            self._report(path, None, f"it was not tidied: {error.message}")
            return False
        return True

    def _check_file(self, path: PurePosixPath, document: Document) -> None:
        """Look for duplicates, dead links and open dates in one file, and remove what may be removed."""
        is_log = path != self._index and DAY_NAME.match(path.name) is not None
        removals = {} if is_log else _find_repeats(path, document)
        targets = [resolve_link(path, reference) for reference in document.references]
        links = {comparable_path(target) for target in targets if target is not None}
        for entry in document.entries:
            if entry not in removals and not is_log:
                self._note_place(path, entry)
            dead, has_others = self._read_links(path, entry, links)
            if dead and self._is_index(path) and not has_others:
                removals.setdefault(entry, (f"{dead!r} is not there", "nothing"))
            elif dead:
                self._report(path, entry.line, f"the link to {dead!r} leads nowhere")
            if not is_log and (phrase := first_open_date(entry.text)):
                self._report(path, entry.line, f"{phrase!r} names no date; write the date itself")
        self._links[comparable_path(path)] = links
        self._remove(path, document, removals)

    def _remove(
        self, path: PurePosixPath, document: Document, removals: Mapping[MarkdownBlock, tuple[str, str]]
    ) -> None:
        for entry, (why, _instead) in removals.items():
            what = "it is pinned, and stays" if entry.is_pinned else "it is retired"
            self._report(path, entry.line, f"{entry.text[:80]!r}: {why}; {what}")
        edits = [EntryChange(entry=entry) for entry in removals if not entry.is_pinned]
        if edits and self._edit(path, document, edits):
            for edit in edits:
                why, instead = removals[edit.entry]
                kept = retired_entry(document, edit.entry, path=path, why=why, instead=instead, day=self._day)
                self._retired.append(kept)

    def _read_links(self, path: PurePosixPath, entry: MarkdownBlock, links: set[str]) -> tuple[str, bool]:
        """Add the files to which an entry links; return a dead target, and whether the line is there for more."""
        dead, has_others = "", False
        for link in find_links(entry.text):
            target = resolve_link(path, link.target)
            if target is not None and not self._has(target):
                dead = dead or str(target)
                has_others = has_others or not link.is_first
            else:
                has_others = True
                links |= {comparable_path(target)} if target is not None else set()
        return dead, has_others

    def _has(self, path: PurePosixPath) -> bool:
        return comparable_path(path) in self._names or self._folder.may_have(path)

    def _is_index(self, path: PurePosixPath) -> bool:
        """Return whether a file is an index: the folder's, one of a folder below, or a part of one."""
        if self._index is not None and (path == self._index or is_part_of(path, self._index)):
            return True
        return path.name in MEMORY_NAMES

    def _note_place(self, path: PurePosixPath, entry: MarkdownBlock) -> None:
        text = " ".join(entry.text.split())
        if len(text) >= SHORTEST_REPEATED:
            text = entry.text if entry.text == text else text  # most are in memory already
            number, first_path, line = self._places.get(text, (0, path, entry.line))
            self._places[text] = (number + 1, first_path, line)

    def _report_repeated(self) -> None:
        """Report texts that several sections or files have. They stay, since the place may be part of the meaning."""
        for number, path, line in self._places.values():
            if number > 1:
                self._report(path, line, f"{number} places have the same text")
        self._places.clear()

    def _check_index(self) -> bool:
        """Add a line to the index for each topic file to which no link leads from it; return whether it takes lines."""
        # An index of a folder below comes before what it may link to.
        paths = sorted(
            {*self._files, *self._contents}, key=lambda each: (len(each.parts), each.name not in MEMORY_NAMES, each)
        )
        if len(paths) > self._limits.topic_files + 1:
            message = f"the folder has {len(paths)} files, more than {self._limits.topic_files}; merge some"
            self._report(paths[0], None, message)
        index = self._index
        if index is None:
            return True
        document = self._read(index)
        missing = list(self._find_missing(index, paths))
        parts = [(path, self._read(path)) for path in paths if path == index or is_part_of(path, index)]
        found = {path: list(find_index_lines(path, part)) for path, part in parts}
        lines = [line for line in found[index] if not is_part_of(line.target, index)]
        # An empty index is to be filled with lines for files, and one whose entries are mostly such.
        others = sum(len(part.entries) - len(found[path]) for path, part in parts)
        lists_files = others <= sum(not is_part_of(line.target, index) for each in found.values() for line in each)
        edits: list[Edit] = list(self._describe_lines(lines))
        named = [path for path in missing if path in self._described and path not in self._files]
        if lists_files and len(missing) <= self._limits.topic_files:
            named = missing
        edits += [self._index_line(index, path, lines) for path in named]
        if edits and not self._edit(index, document, edits):
            return False
        for path in named:
            self._report(index, None, f"{str(path)!r} was not in the index, and now is")
        missing = [path for path in missing if path not in named]
        if missing and lines:
            message = f"the index has no line for {len(missing)} files, such as {str(missing[0])!r}"
            self._report(index, None, message)
        return True

    def _describe_lines(self, lines: Sequence[IndexLine]) -> Iterator[EntryChange]:
        """Yield the lines that say something else of a file than is to be said from now on."""
        for line in lines:
            description = self._described.get(line.target, line.hook)
            link = _LINK.match(line.entry.text)
            if link and line.hook and line.hook != description and not line.entry.is_pinned:
                yield EntryChange(entry=line.entry, text=f"{link[0]}{line.separator}{description}")

    def _find_missing(self, index: PurePosixPath, paths: Sequence[PurePosixPath]) -> Iterator[PurePosixPath]:
        """Yield the files to which no link leads; those to which a yielded file links are not missing then."""
        reached: set[str] = set()
        for path in (index, *paths):
            if comparable_path(path) in reached or (path != index and DAY_NAME.match(path.name)):
                continue
            if path != index:
                yield path
            ahead = [comparable_path(path)]
            while ahead:
                reached.add(name := ahead.pop())
                ahead += self._links.get(name, set()) - reached

    def _index_line(self, index: PurePosixPath, path: PurePosixPath, lines: Sequence[IndexLine]) -> EntryAddition:
        """Return the line for a file, in the section of the last line for a file of its kind."""
        kinds, description = {each: file.kind for each, file in self._files.items()}, self._described.get(path, "")
        like = next((line for line in reversed(lines) if kinds.get(line.target) == kinds.get(path)), None)
        like = like or (lines[-1] if lines else None)
        text = render_index_line(path, self._read(path), index=index, like=like, description=description)
        return EntryAddition(text=text, headings=like.entry.headings if like else None)

    def _check_sizes(self) -> None:
        for path in sorted({*self._files, *self._contents}):
            part: PurePosixPath | None = path
            while part is not None:
                part = self._shorten(part)

    def _shorten(self, path: PurePosixPath) -> PurePosixPath | None:
        """Move the end of a file that is too long to its next part; return that, none if nothing was moved."""
        document, limits, is_index = self._read(path), self._limits, path == self._index
        if DAY_NAME.match(path.name) and not is_index:
            return None
        max_lines = limits.index_lines if is_index else MAX_FILE_BYTES
        max_bytes = limits.index_bytes if is_index else limits.topic_bytes
        try:
            split = split_file(path, document, max_lines=max_lines, max_bytes=max_bytes)
            if split is None:
                return None
            part, data = self._place_tail(path, document, split)
            links = [line.entry.text for line in split.links]
            if part not in [line.target for line in split.links]:
                number = part.stem.rpartition("-part")[2]
                links.append(render_link(f"{title_of(path, document)} ({number})", part, path))
            head = apply_edits(parse_entries(split.head), [EntryAddition(text=link) for link in links])
        except CircadiaError as error:
            self._report(path, None, f"it is too long, and was not split: {error.message}")
            return None
        self._contents[path], self._contents[part] = head, data
        self._names.add(comparable_path(part))
        self._links.setdefault(comparable_path(path), set()).add(comparable_path(part))
        self._report(path, None, f"it was too long; its end is now in {str(part)!r}")
        joined = parse_entries(data)
        self._remove(part, joined, _find_repeats(part, joined))
        return part

    def _place_tail(self, path: PurePosixPath, document: Document, split: SplitFile) -> tuple[PurePosixPath, bytes]:
        """Return the file for overflow and its bytes: the part linked so far if it may be changed, else a new one."""
        for line in split.links[-1:]:
            if line.target in self._files or line.target in self._contents:
                with suppress(Conflict):
                    return line.target, append_part(self._read(line.target), split.tail)
        fresh = next(part for number in count(2) if not self._has(part := part_name(path, number)))
        front = document.data[: document.body_start].removeprefix(BOM)
        topics = [self._read(file.path) for file in self._folder.topics if file.path != path]
        if topics and not front:
            front = render_front_matter(topics, name=fresh.stem, description=f"More of {path.name}", kind="reference")
        return fresh, append_part(parse_entries(front), split.tail)


def _find_repeats(path: PurePosixPath, document: Document) -> dict[MarkdownBlock, tuple[str, str]]:
    """Return the entries whose text stands in the same section before, with the reason and the place of that one."""
    repeats: dict[MarkdownBlock, tuple[str, str]] = {}
    first: dict[tuple[object, ...], MarkdownBlock] = {}
    for entry in document.entries:
        key = (entry.headings, entry.kind, " ".join(entry.text.split()))
        other = first.setdefault(key, entry)
        if entry.text and other is not entry:
            kept, less = (entry, other) if entry.is_pinned and not other.is_pinned else (other, entry)
            first[key] = kept
            repeats[less] = ("the same text stands there twice", f"{path} line {kept.line}")
    return repeats
