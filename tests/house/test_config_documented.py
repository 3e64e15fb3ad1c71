"""The settings and the page about them say the same."""

import re
from collections.abc import Iterator
from typing import cast, get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from circadia.settings import Settings
from circadia.settings.load import parse_yaml
from tests.cli.config_page import default
from tests.house.tree import REFERENCE, SOURCE, blocks, coded, pages, parts, python_files, shown

PAGE = REFERENCE / "config.md"

Field = tuple[str, str]
"""The class that defines a field, and the field's name in the file."""


def models_in(annotation: object) -> Iterator[type[BaseModel]]:
    """Yield the models that a field's type holds, in lists, maps and unions too."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in get_args(annotation):
        yield from models_in(inner)


def fields_below(model: type[BaseModel]) -> Iterator[tuple[Field, str | None]]:
    """Yield each field below the model with its description, those of nested models included."""
    for name, info in model.model_fields.items():
        owner = next(cls for cls in reversed(model.__mro__) if name in getattr(cls, "__annotations__", {}))
        yield (owner.__name__, info.alias or name), info.description
        for inner in models_in(info.annotation):
            yield from fields_below(inner)


def sections() -> dict[str, list[type[BaseModel]]]:
    """Return the top-level keys of the file with the models of each; one of several kinds has one for each."""
    return {info.alias or name: list(models_in(info.annotation)) for name, info in Settings.model_fields.items()}


def page_of(section: str) -> str:
    """Return the text below the heading that names the section, as in "## `upstreams`"."""
    return "\n".join(part.text for part in parts(PAGE) if f"`{section}`" in part.heading)


def homes() -> dict[Field, set[str]]:
    """Return the sections that each field may be documented in; an inherited field needs one of them."""
    found: dict[Field, set[str]] = {}
    for section, models in sections().items():
        for model in models:
            for field, _ in fields_below(model):
                found.setdefault(field, set()).add(section)
    return found


def test_each_field_of_each_section_has_a_description() -> None:
    bare = [field for field, description in fields_below(Settings) if not description]
    assert not bare


def test_each_section_has_a_heading_on_the_page() -> None:
    missing = [section for section in sections() if not page_of(section)]
    assert not missing


def test_each_field_is_on_the_page_below_its_section() -> None:
    missing = [
        f"{' or '.join(sorted(where))}: {field}"
        for (_, field), where in homes().items()
        if not any(f"`{field}`" in page_of(section) for section in where)
    ]
    assert not missing


def fields_in(model: type[BaseModel]) -> Iterator[tuple[str, FieldInfo]]:
    """Yield each field below the model, those of nested models included."""
    for name, info in model.model_fields.items():
        yield info.alias or name, info
        for inner in models_in(info.annotation):
            yield from fields_in(inner)


def bare(cell: str) -> str:
    """Return a default without what only sets it off."""
    return re.sub(r'[`",\[\]]', "", cell).strip()


def test_each_default_on_the_page_is_the_codes() -> None:
    wrong: set[str] = set()
    for section, models in sections().items():
        rows = re.findall(r"^\| `([^`]+)` \| [^|]* \| ([^|]*) \|", page_of(section), re.M)
        for field, info in (each for model in models for each in fields_in(model)):
            told = {bare(cell) for name, cell in rows if name == field}
            inner = isinstance(info.get_default(call_default_factory=True), BaseModel)
            if told and not inner and bare(default(info)) not in told:
                wrong.add(f"{section}: {field} is {default(info)}, the page says {sorted(told)}")
    assert not wrong


def test_the_page_names_no_field_that_does_not_exist() -> None:
    """The first cell of a table row is a field."""
    known = {name for _, name in homes()} | set(sections())
    for section in sections():
        rows = re.findall(r"^\| *`([^`]+)` *\|", page_of(section), re.M)
        unknown = [row for row in rows if row.split(".")[-1] not in known]
        assert not unknown, section


def test_each_environment_variable_is_on_the_page() -> None:
    pattern = re.compile(r"[\"'](CIRCADIA_[A-Z_]+)[\"']")
    read = {name for path in python_files("src") for name in pattern.findall(path.read_text("utf-8"))}
    assert read <= set(coded(PAGE.read_text("utf-8"))), f"read somewhere below {shown(SOURCE)}"


def test_each_configuration_file_in_the_docs_is_accepted() -> None:
    """A block marked `yaml circadia` is a whole `circadia.yaml`; one that has only keys of it must be marked."""
    written = [block for page in pages() for block in blocks(page) if block.language == "yaml"]
    read = [(block, cast("dict[str, object]", parse_yaml(block.body) or {})) for block in written]
    marked = [block for block, _ in read if "circadia" in block.flags]
    assert marked
    for block, said in read:
        if "circadia" in block.flags:
            Settings.model_validate(said)
    assert not [str(block) for block, said in read if set(said) <= set(sections()) and block not in marked]
