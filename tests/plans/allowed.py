"""Statements that may take more work when more is stored, by a part of each, with the reason. Review it like code."""

from collections.abc import Mapping
from typing import Final

ALLOWED: Final[Mapping[str, str]] = {}
