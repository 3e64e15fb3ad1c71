"""The repository as the house rules see it: its files, its syntax trees, its pages cut at the headings."""

import ast
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "circadia"
TESTS = ROOT / "tests"
DOCS = ROOT / "docs"
REFERENCE = DOCS / "reference"

_FENCE = re.compile(r"^(?P<indent> *)```(?P<info>[^\n`]*)\n(?P<body>.*?)^(?P=indent)``` *$", re.M | re.S)
_HEADING = re.compile(r"^(#{1,6}) +(.+?) *$", re.M)


def committed() -> list[Path]:
    """Return the files that are in the repository or would be added to it, as git sees them."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout.decode()
    return sorted(path for name in listed.split("\0") if name and (path := ROOT / name).is_file())


def python_files(*folders: str) -> list[Path]:
    """Return the Python files below `folders` of the repository."""
    roots = [ROOT / folder for folder in folders]
    return [path for path in committed() if path.suffix == ".py" and any(path.is_relative_to(r) for r in roots)]


def pages() -> list[Path]:
    """Return the Markdown pages that users read."""
    return [path for path in committed() if path.suffix == ".md" and path.parent in {ROOT, *_folders(DOCS)}]


def _folders(top: Path) -> set[Path]:
    return {top, *(path.parent for path in top.rglob("*.md"))}


def syntax(path: Path) -> ast.Module:
    """Parse the file."""
    return ast.parse(path.read_text("utf-8"), filename=str(path))


def shown(path: Path) -> str:
    """Return the path as a reader names it."""
    return path.relative_to(ROOT).as_posix()


@dataclass(frozen=True, kw_only=True)
class Block:
    """One fenced block of a page."""

    page: Path
    line: int
    language: str
    flags: tuple[str, ...]
    body: str

    def __str__(self) -> str:
        return f"{shown(self.page)}:{self.line}"


def blocks(page: Path) -> Iterator[Block]:
    """Yield the page's fenced blocks; the words after the language are its flags."""
    text = page.read_text("utf-8")
    for match in _FENCE.finditer(text):
        language, *flags = match["info"].split() or [""]
        indent = len(match["indent"])
        body = "\n".join(line[indent:] for line in match["body"].splitlines()) + "\n"
        line = text.count("\n", 0, match.start()) + 1
        yield Block(page=page, line=line, language=language, flags=tuple(flags), body=body)


@dataclass(frozen=True, kw_only=True)
class Part:
    """A heading of a page and everything below it, its lesser headings included."""

    heading: str
    text: str


def parts(page: Path) -> list[Part]:
    """Cut the page at its headings; headings inside fenced blocks are none."""
    text = page.read_text("utf-8")
    bare = _FENCE.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)
    found = list(_HEADING.finditer(bare))
    result: list[Part] = []
    for index, match in enumerate(found):
        level = len(match[1])
        end = next((later.start() for later in found[index + 1 :] if len(later[1]) <= level), len(text))
        result.append(Part(heading=match[2], text=text[match.start() : end]))
    return result


def coded(text: str) -> list[str]:
    """Return what stands in single backticks, in order."""
    return re.findall(r"(?<!`)`([^`\n]+)`(?!`)", text)
