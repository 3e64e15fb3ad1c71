"""How fast commands and the server start, in processor time, and what a start leaves out."""

import subprocess
import sys
from pathlib import Path
from statistics import median

import pytest

from benchmarks.startup import installed_bytes, measure_starts

RUNS = 3
LEFT_OUT = {
    "aiohttp", "alembic", "anthropic", "asyncpg", "circadia.stores.postgres", "fastapi", "genai_prices", "mcp",
    "mcp_types", "openai", "pydantic_ai", "redis", "semantic_text_splitter", "sqlalchemy.ext.asyncio", "sqlalchemy.orm",
    "tokenizers", "wordllama",
}  # fmt: skip
"""What takes long to load, or much memory, and an idle server on SQLite does without."""


@pytest.mark.slow  # on a busy processor the same work takes up to half as much time again
@pytest.mark.spec("SHIP-02")
async def test_help_holds_and_serve_start_within_the_promised_processor_time(tmp_path: Path) -> None:
    starts = await measure_starts(tmp_path, RUNS)
    assert median(starts.help_seconds) <= 0.35, starts
    assert median(starts.holds_seconds) <= 0.35, starts
    assert median(starts.ready_seconds) <= 2.0, starts


@pytest.mark.spec("SHIP-15")
async def test_an_idle_server_has_at_most_130_mb(tmp_path: Path) -> None:
    assert max((await measure_starts(tmp_path, 1)).resident_megabytes) <= 130


@pytest.mark.spec("SHIP-02", "SHIP-15")
def test_the_server_loads_no_sdk_of_a_provider_no_embedder_and_no_second_database() -> None:
    program = "import sys, circadia.server.app; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout.split()
    assert {"starlette", "numpy.ma"} <= set(loaded)  # what a first call would load else on the loop
    assert not LEFT_OUT & set(loaded)


def test_the_installation_is_counted_with_what_its_packages_need_and_without_extras() -> None:
    packages = installed_bytes()
    assert {"circadia", "numpy", "pydantic-core", "greenlet", "cryptography"} <= set(packages)
    assert not {"pytest", "redis", "matplotlib", "pip"} & set(packages)
    assert min(packages["circadia"], packages["numpy"]) > 4_000_000
