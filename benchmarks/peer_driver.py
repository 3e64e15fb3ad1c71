"""Runs another memory's driver (`peer_*.py`) in an environment of its own, with telemetry off."""

import asyncio
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.peers import BPE, CHROMA, GPTCACHE, LANGMEM, LANGMEM_WITH, MEM0, NotInstallable, installed

QUIET: Final[Mapping[str, str]] = {
    "MEM0_TELEMETRY": "False",
    "ANONYMIZED_TELEMETRY": "False",
    "LANGSMITH_TRACING": "false",
    "LANGCHAIN_TRACING_V2": "false",
    "NO_PROXY": "127.0.0.1",
    "PYTHONPATH": "",
}
"""Nothing leaves this machine, and nothing of ours is imported there."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Memory:
    """One that can be driven."""

    name: str
    """With its version."""
    driver: str
    """The file beside this one, without its suffix."""
    requirements: tuple[str, ...]
    """What pip installs."""

    async def run(self, task: str, folder: Path, asked: Mapping[str, Any], seconds: float) -> Mapping[str, Any]:
        """Let the driver do a task in a folder, within so many seconds; return what it found.

        Raises:
            NotInstallable: it cannot be installed, does not work here, or took longer.
        """
        python = await installed(self.name.replace(" ", "-").lower(), *self.requirements)
        (folder / "asked.json").write_text(json.dumps(asked), "utf-8")
        # -P, or the names beside the driver would hide packages such as `requests`.
        command = [str(python), "-P", str(Path(__file__).with_name(f"{self.driver}.py")), task, str(folder)]
        ours = {key: value for key, value in os.environ.items() if not key.startswith(("OPENAI_", "OPENROUTER_"))}
        with (folder / "driver.log").open("wb") as log:
            process = await asyncio.create_subprocess_exec(
                *command, cwd=folder, env={**ours, **QUIET, "MEM0_DIR": str(folder)}, stdout=log, stderr=log
            )
        try:
            await asyncio.wait_for(process.wait(), seconds)
        except TimeoutError:
            raise NotInstallable(f"it took longer than {seconds:g} s") from None
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode != 0:
            said = (folder / "driver.log").read_text("utf-8", "replace").strip().splitlines()
            raise NotInstallable(f"its driver failed: {said[-1][:300] if said else 'it said nothing'}")
        return json.loads((folder / "found.json").read_text("utf-8"))


MEM0_MEMORY: Final = Memory(name=f"mem0 {MEM0}", driver="peer_mem0", requirements=(f"mem0ai=={MEM0}",))
LANGMEM_MEMORY: Final = Memory(
    name=f"LangMem {LANGMEM}", driver="peer_langmem", requirements=(f"langmem=={LANGMEM}", *LANGMEM_WITH)
)
CHROMA_DATABASE: Final = Memory(name=f"Chroma {CHROMA}", driver="peer_chroma", requirements=(f"chromadb=={CHROMA}",))
TOKENS: Final = Memory(name=f"bpe-openai {BPE}", driver="peer_tokens", requirements=(f"bpe-openai=={BPE}",))
GPTCACHE_CACHE: Final = Memory(
    name=f"GPTCache {GPTCACHE}",
    driver="peer_gptcache",
    requirements=(f"gptcache=={GPTCACHE}", "faiss-cpu", "sqlalchemy<2.1"),
)
"""With what it would install by itself when it is first used."""
