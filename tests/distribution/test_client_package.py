"""`circadia-client`: the client without the server, built from the server's own modules."""

import asyncio
import os
import subprocess
import sys
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from deploy.client_package import main
from tests.fixtures.server_process import ADMIN_TOKEN, CircadiaProcess

pytestmark = pytest.mark.spec("SHIP-15")
PROGRAM = """
import sys
from circadia_client import CircadiaError, SyncClient
with SyncClient(sys.argv[1], sys.argv[2]) as circadia:
    circadia.create_agent("default", "ann")
    print(circadia.set_sleeping("default", "ann", True).sleeping)
    try:
        circadia.show_agent("default", "bob")
    except CircadiaError as error:
        print(error.code)
print([name for name in sys.modules if name.partition(".")[0] == "circadia"])
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("client")
    main(folder)
    return next(folder.glob("*.whl"))


def test_it_has_no_module_of_the_server_and_needs_few_packages(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        metadata = next(name for name in names if name.endswith("METADATA"))
        lines = Parser().parsestr(archive.read(metadata).decode()).get_all("Requires-Dist") or []
    folders = {name.split("/")[1] for name in names if name.count("/") > 1}
    assert folders == {"client", "licenses", "records", "schemas", "wake"}
    assert {Requirement(line).name for line in lines} == {"aiohttp", "cronsim", "orjson", "pydantic", "tzdata"}
    assert wheel.stat().st_size < 200_000
    assert {"circadia_client/py.typed", "circadia_client/client/webhooks.py"} <= set(names)


async def test_it_talks_to_a_server_and_loads_nothing_of_it(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    async with CircadiaProcess(tmp_path / "server") as server:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", PROGRAM, server.url, ADMIN_TOKEN), cwd=tmp_path, stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(tmp_path / "site")},
        )  # fmt: skip
        output, _ = await process.communicate()
    assert output.decode().split("\n") == ["True", "not_found", "[]", ""]
