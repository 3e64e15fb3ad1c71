"""Print the lowest versions that pyproject.toml allows, as constraints for pip (`make versions`).

A bound of two numbers stands for a line of releases, of which the first may never have been published.
"""

import tomllib
from collections.abc import Iterator
from pathlib import Path

from packaging.requirements import Requirement

PROJECT = Path(__file__).resolve().parent.parent / "pyproject.toml"


def list_lowest() -> Iterator[str]:
    """Yield a constraint for each package with a lower bound, of the server and of its extras."""
    project = tomllib.loads(PROJECT.read_text("utf-8"))["project"]
    lines = [*project["dependencies"], *(line for extra in project["optional-dependencies"].values() for line in extra)]
    for wanted in map(Requirement, lines):
        lowest = [each.version for each in wanted.specifier if each.operator == ">="]
        if lowest:
            marker = "" if wanted.marker is None else f"; {wanted.marker}"
            numbers = lowest[0].split(".")
            version = lowest[0] if len(numbers) > 2 else ".".join([*numbers, "0"][:2]) + ".*"
            yield f"{wanted.name}=={version}{marker}"


if __name__ == "__main__":
    print(*list_lowest(), sep="\n")
