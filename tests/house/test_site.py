"""The documentation site builds, each of its links leads somewhere, and it loads nothing from another host."""

import html.parser
import json
import os
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.house.tree import ROOT

LOADED = {"script": "src", "link": "href", "img": "src", "iframe": "src", "source": "src"}


class Loads(html.parser.HTMLParser):
    """What a page loads by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        if tag in LOADED and found.get("rel") != "canonical" and (address := found.get(LOADED[tag])):
            self.addresses.append(address)


def _require_guides_before_promises(site: Path) -> None:
    """Assert that the search weighs guides and concepts more than reference, and that more than promises."""
    index = json.loads((site / "search" / "search_index.json").read_text("utf-8"))
    weights: dict[str, set[float]] = {}
    for entry in index["docs"]:
        weights.setdefault(entry["location"].partition("/")[0], set()).add(entry.get("boost", 1))
    assert all(len(each) == 1 for each in weights.values()), weights
    order = [weights[folder].pop() for folder in ("how-to", "concepts", "operations", "reference", "spec")]
    assert order == sorted(order, reverse=True)
    assert len(set(order)) == len(order)


@pytest.mark.spec("SHIP-09", "SHIP-13")
def test_the_site_builds_without_a_warning_and_from_its_own_files(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    pages = sorted(tmp_path.rglob("index.html"))
    sources = list((ROOT / "docs").rglob("*.md"))
    assert len(pages) == len(sources) + 4, "the README, the changelog, the guide for developers, the TypeScript client"
    for page in pages:
        loads = Loads()
        loads.feed(page.read_text("utf-8"))
        assert loads.addresses, page
        for address in loads.addresses:
            assert not urlsplit(address).netloc, f"{page} loads {address}"
            target = page.parent / urlsplit(address).path
            assert target.exists(), f"{page} loads {address}"
    _require_guides_before_promises(tmp_path)
    first = (tmp_path / "index.html").read_text("utf-8")
    assert "Put your own agent to sleep in five minutes" in first
    assert 'href="get-started/' in first
