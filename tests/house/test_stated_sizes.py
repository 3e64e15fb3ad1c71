"""Each table of the database has a stated age or size."""

import re

import pytest

from circadia.stores.sql.tx import ALL_TABLES
from tests.house.tree import ROOT

OTHERS = {"alembic_version", "message_words"}
"""Tables that only the migrations know."""


@pytest.mark.spec("LARGE-08")
def test_the_page_of_retention_says_what_ends_the_rows_of_each_table() -> None:
    page = (ROOT / "docs" / "operations" / "retention.md").read_text("utf-8")
    stated = {name for row in re.findall(r"(?m)^\| (`[^|]*) \|", page) for name in re.findall(r"`(\w+)`", row)}
    present = {*(table.name for table in ALL_TABLES), *OTHERS}
    assert stated == present, "state an age or a size in docs/operations/retention.md"
