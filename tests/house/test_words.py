"""The glossary owns the words, and the repository stands alone."""

import ast
import re
from pathlib import Path

from tests.house.tree import DOCS, SOURCE, coded, committed, parts, python_files, shown, syntax

GLOSSARY = DOCS / "glossary.md"
PLACES = ("/".join(["..", "shared"]), "/".join(["", "work", ""]), "/".join(["", "opt", "pypi"]))
PUBLIC_MODULES = ("__init__.py", "client/__init__.py", "testing/__init__.py")
"""Modules whose `__all__` is public; all classes of `records` and `schemas` are public too."""
PLAIN_WORDS = frozenset({
    "ack", "answerable", "blocker", "circadia", "client", "clock", "closing", "condition", "cost", "count", "creation",
    "day", "dead", "deletion", "delta", "direct", "drop", "dropped", "error", "first",
    "gap", "group", "head", "held", "hmac", "imported", "join", "known", "letter", "lifecycle", "link", "lookup",
    "manual", "matrix", "mcp", "mistake", "mock", "model", "next", "node", "off", "on", "one", "over", "own",
    "pair", "pending", "post", "problem", "question", "reason", "recent", "recurring", "release", "restoration",
    "rotation", "row", "rule", "run", "same", "scheme", "searchable", "send", "sent", "server", "signature",
    "sleeping", "sleeptime", "source", "spec", "spend", "staged", "stale", "stall", "stored", "sum", "suspension",
    "switch", "sync", "test", "tested", "time",
    "update", "use", "verdict", "waiting", "weekday",
})  # fmt: skip
"""Words of programmers and of everyday life in names of classes, which need no entry."""
ENDING = re.compile("(?:View|List|Page|Outcome|Detail|Stats|Created|Result|Status|Kind|Type|Mode|Keys|Line|Report)+$")
"""What a class name says about the form of a thing, not about the thing."""
INDEX_HOSTS = (".".join(["pypi", "org"]), ".".join(["pythonhosted", "org"]), ".".join(["registry", "npmjs", "org"]))


def rows(heading: str, page: Path = GLOSSARY) -> list[list[str]]:
    """Return the cells of the table below the heading, without its head."""
    text = next(part.text for part in parts(page) if part.heading == heading)
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def words() -> set[str]:
    """Return the glossary's words; a row may hold several, parted by a comma or a slash."""
    return {word for row in rows("Words") for word in re.split(r" ?[,/] ?", row[0])}


def avoided() -> dict[str, str]:
    """Return the beginnings of words that are not used, with the word to use."""
    return {word: row[1] for row in rows("Words that we do not use") for word in coded(row[0])}


def test_each_word_has_one_meaning() -> None:
    table = rows("Words")
    assert len(table) == len({row[0] for row in table})
    assert all(len(row) == 2 and row[1] for row in table)


def test_each_noun_among_the_records_is_in_the_glossary() -> None:
    nouns = {path.stem.replace("_", " ") for path in python_files("src/circadia/records") if path.stem != "__init__"}
    assert nouns <= words()


def public_classes() -> set[str]:
    """Return the names of the public classes."""
    names: set[str] = set()
    for path in (SOURCE / module for module in PUBLIC_MODULES):
        for node in syntax(path).body:
            if isinstance(node, ast.Assign) and [ast.unparse(target) for target in node.targets] == ["__all__"]:
                names |= set(ast.literal_eval(node.value))
    for path in python_files("src/circadia/records", "src/circadia/schemas"):
        names |= {node.name for node in syntax(path).body if isinstance(node, ast.ClassDef)}
    return {name for name in names if not name.startswith("_")}


def nouns_of(name: str) -> set[str]:
    """Return the words of a class name in the singular, without its ending."""
    return {singular(word.lower()) for word in re.findall("[A-Z][a-z]+", ENDING.sub("", name))}


def singular(word: str) -> str:
    return word.removesuffix("ies") + "y" if word.endswith("ies") else re.sub("(?<=[a-z]{2})(?<![sui])s$", "", word)


def test_each_word_of_a_public_class_is_in_the_glossary_or_plain() -> None:
    known = {singular(part) for word in words() for part in re.split("[ -]", word.lower())}
    missing: dict[str, set[str]] = {}
    for name in public_classes():
        for noun in nouns_of(name) - known:
            missing.setdefault(noun, set()).add(name)
    assert not {word: sorted(names) for word, names in missing.items() if word not in PLAIN_WORDS}
    assert not PLAIN_WORDS - set(missing), "a plain word that no class needs"


def test_code_and_docs_use_the_words_of_the_glossary_only() -> None:
    found: list[str] = []
    words = {re.compile(rf"(?<![a-z]){re.escape(word)}", re.I): (word, better) for word, better in avoided().items()}
    readable = [path for path in committed() if path.suffix in {".py", ".md"} and path != GLOSSARY]
    for path in readable:
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
            for pattern, (word, better) in words.items():
                if pattern.search(line):
                    found.append(f"{shown(path)}:{number} has {word!r}; the word is {better}")
    assert not found


def test_no_committed_file_names_a_place_outside_the_repository() -> None:
    found: list[str] = []
    for path in committed():
        content = path.read_bytes()
        found += [f"{shown(path)} has {name}" for name in (*PLACES, *INDEX_HOSTS) if name.encode() in content]
    assert not found


def test_no_committed_file_holds_a_key() -> None:
    key = re.compile(rb"\b(?:sk-(?:ant-|proj-)?[A-Za-z0-9_-]{32,}|AKIA[0-9A-Z]{16}|ghp_[A-Za-z0-9]{36})")
    assert not [shown(path) for path in committed() if key.search(path.read_bytes())]


def test_who_uses_memory_learns_20_words_at_most() -> None:
    assert 10 < len(rows("The words", DOCS / "concepts" / "memory.md")) <= 20
