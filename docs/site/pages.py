"""Hooks of mkdocs: the files beside `docs` that readers of the site need become part of it."""

import posixpath
import re
from pathlib import Path
from typing import Any, Final

from mkdocs.structure.files import File, Files

_ROOT: Final = Path(__file__).parents[2]
_FILES: Final = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "clients/typescript/README.md": "reference/typescript.md",
    "examples/sleeptime/open_tasks.py": "examples/open_tasks.py",
}
"""Files of the site, by their paths in the repository."""
_BOOST: Final = {"get-started.md": 4, "how-to": 4, "concepts": 3, "operations": 2, "spec": 0.2, "changelog.md": 0.2}
"""Weight of a page in the search, by its folder: readers look for guides, developers of Circadia for promises."""
_LINK: Final = re.compile(r"""(?:(?<=\]\()|(?<= src=")|(?<= srcset="))(?![a-z]+:|#)([^)#\s"]+)""")
_FENCE: Final = re.compile(r"^(\s*```\w+) .+$", re.MULTILINE)
"""Begin of a block of code, with words for the tests behind its language."""


def on_files(files: Files, config: Any) -> Files:
    for source, page in _FILES.items():
        text = (_ROOT / source).read_text("utf-8")
        files.append(File.generated(config, page, content=_move_links(text, source, page)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    source = page.file.src_uri
    page.meta["search"] = {"boost": _BOOST.get(source.partition("/")[0], 1)}
    if source not in _FILES.values():
        markdown = _move_links(markdown, f"docs/{source}", source)
    return _FENCE.sub(r"\1", markdown)


def _move_links(markdown: str, source: str, page: str) -> str:
    """Return the text of a file of the repository with its links as its page of the site needs them."""

    def move(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(source), link[1]))
        if target in _FILES:
            found = _FILES[target]
        elif target.startswith("docs/"):
            found = target.removeprefix("docs/")
        else:
            return link[1]
        return posixpath.relpath(found, posixpath.dirname(page) or ".")

    return _LINK.sub(move, markdown)
