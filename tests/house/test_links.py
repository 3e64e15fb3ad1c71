"""Links of the pages lead somewhere, in the repository and in the source archive."""

import re
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

from tests.house.tree import ROOT, pages, parts, shown

LINK = re.compile(r"\]\(([^)\s]+)\)")


def links() -> Iterator[tuple[Path, str, Path, str]]:
    """Yield each link to a file of the repository: its page, as it is written, the file, and the heading.

    A diff shows the links of other folders.
    """
    for page in pages():
        for written in LINK.findall(re.sub(r"(?s)```diff\n.*?```", "", page.read_text("utf-8"))):
            if "://" not in written:
                file, _, heading = written.partition("#")
                yield page, written, (page.parent / file).resolve() if file else page, heading


def anchors(page: Path) -> set[str]:
    """Return what the headings of a page are linked by."""
    plain = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", part.heading).lower() for part in parts(page)]
    return {re.sub(r"[^\w\- ]", "", heading).replace(" ", "-") for heading in plain}


def test_each_link_leads_to_a_file_and_to_a_heading_of_it() -> None:
    broken = [
        f"{shown(page)}: {written}"
        for page, written, file, heading in links()
        if not file.exists() or (heading and file.suffix == ".md" and heading not in anchors(file))
    ]
    assert not broken


def test_what_the_pages_link_to_is_in_the_source_archive() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    included: list[str] = settings["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    tops = {file.relative_to(ROOT).parts[0] for _, _, file, _ in links()}
    assert not [top for top in tops if not any(fnmatch(top, pattern) for pattern in included)]
