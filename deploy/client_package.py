"""Build `circadia-client`, the Python client without the server, from the server's own modules.

The modules that `circadia.client` imports become the package `circadia_client`, so that both can be installed. `make
dist` and `make release` run this; the argument is the folder for the wheel and the source distribution.
"""

import ast
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement

ROOT: Final = Path(__file__).resolve().parent.parent
SOURCES: Final = ROOT / "src"
NAME: Final = "circadia_client"
PYTHON: Final = ROOT / "clients/python"

_IMPORT: Final = re.compile(r"^(\s*(?:from|import) )circadia\b", re.M)
_IN_DOCUMENTATION: Final = re.compile(r"`circadia\.(?=(?:errors|schemas|client)\b)")
_INIT: Final = f'''"""The Python client of a Circadia server."""

from {NAME}.client import Client, SyncClient
from {NAME}.errors import CircadiaError

__all__ = ["CircadiaError", "Client", "SyncClient"]
'''
_PROJECT: Final = """[build-system]
requires = [{build}]
build-backend = "hatchling.build"

[project]
name = "circadia-client"
version = "{version}"
description = "The Python client of Circadia, the sleep-wake-dream runtime for AI agents"
license = "Apache-2.0"
license-files = ["LICENSE"]
readme = "README.md"
requires-python = "{python}"
dependencies = [{dependencies}]

[tool.hatch.build.targets.wheel]
packages = ["{name}"]
"""


def main(target: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="circadia-client-") as folder:
        write_project(Path(folder))
        subprocess.run([sys.executable, "-m", "hatchling", "build", "-d", target.resolve()], cwd=folder, check=True)


def write_project(folder: Path) -> None:
    """Write the source tree of the package."""
    modules = find_modules("circadia.client") | find_modules("circadia.client.webhooks")
    for module, path in modules.items():
        relative = path.relative_to(SOURCES / "circadia")
        copy = folder / NAME / relative
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(_INIT if module == "circadia" else rename(path.read_text("utf-8")), "utf-8")
    shutil.copyfile(SOURCES / "circadia/py.typed", folder / NAME / "py.typed")
    shutil.copyfile(ROOT / "LICENSE", folder / "LICENSE")
    shutil.copyfile(PYTHON / "README.md", folder / "README.md")
    config = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    used = {name for path in modules.values() for name in find_imports(path)}
    used |= {"tzdata"} if "zoneinfo" in used else set()
    wanted = [line for line in config["project"]["dependencies"] if Requirement(line).name.replace("-", "_") in used]
    text = _PROJECT.format(
        build=_quote(config["build-system"]["requires"]), version=config["project"]["version"],
        python=config["project"]["requires-python"], dependencies=_quote(wanted), name=NAME,
    )  # fmt: skip
    (folder / "pyproject.toml").write_text(text, "utf-8")


def rename(text: str) -> str:
    """Return a module's text with the imports of the other package."""
    return _IN_DOCUMENTATION.sub(f"`{NAME}.", _IMPORT.sub(rf"\g<1>{NAME}", text))


def find_modules(entry: str) -> dict[str, Path]:
    """Return the files of all of Circadia's modules that this one needs, with its packages, by name."""
    found: dict[str, Path] = {}
    waiting = [entry]
    while waiting:
        name = waiting.pop()
        path = _find_file(name)
        if path is None or name in found:
            continue
        found[name] = path
        waiting += [name.rpartition(".")[0]] if "." in name else []
        if name != "circadia":
            waiting += [each for each in find_imports(path) if each.startswith("circadia")]
    return found


def find_imports(path: Path) -> Iterator[str]:
    """Yield what a module imports: of Circadia each name, since it may be a module; of others the package."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        else:
            continue
        yield from (name if name.startswith("circadia") else name.partition(".")[0] for name in names)


def _find_file(module: str) -> Path | None:
    base = SOURCES.joinpath(*module.split("."))
    return next((path for path in (base / "__init__.py", base.with_suffix(".py")) if path.is_file()), None)


def _quote(texts: list[str]) -> str:
    return ", ".join(f"'{text}'" for text in texts)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
