"""Build the files of a release into dist/; the same commit gives the same bytes.

`make release` runs this after it has built the client, the dashboard and, where Podman is installed, the image, which
is the argument. It refuses a version that the changelog or the client does not have.
"""

import gzip
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DIST = ROOT / "dist"
CLIENT = ROOT / "clients/typescript"
REQUIREMENTS = ROOT / "deploy/requirements.txt"
DASHBOARD_LICENCES = ROOT / "src/circadia/dashboard/third-party-licences.md"


def main(image: Path | None) -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    client = json.loads((CLIENT / "package.json").read_text("utf-8"))["version"]
    check_versions(version, changelog=(ROOT / "CHANGELOG.md").read_text("utf-8"), client=client)
    if ".dev" not in version and (changes := output("git", "status", "--porcelain")):
        raise SystemExit(f"A release is built from a commit. Commit or undo these changes first:\n{changes}")
    os.environ["SOURCE_DATE_EPOCH"] = output("git", "log", "-1", "--format=%ct")
    shutil.rmtree(DIST, ignore_errors=True)
    DIST.mkdir()
    output(sys.executable, "-m", "hatchling", "build", "-d", DIST)
    output(sys.executable, ROOT / "deploy/client_package.py", DIST)
    output("npm", "pack", "--silent", "--pack-destination", DIST, folder=CLIENT)
    shutil.copyfile(REQUIREMENTS, DIST / f"circadia-{version}-requirements.txt")
    write_bill_of_materials(DIST / f"circadia-{version}.cdx.json")
    if image:
        compress(image, DIST / f"circadia-{version}-image.tar.gz")
    sums = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in sorted(DIST.iterdir())]
    (DIST / "SHA256SUMS").write_text("".join(sums), "utf-8")
    print("".join(sums), end="")
    if not image:
        print("This release has no container image, because there is no Podman.")


def check_versions(version: str, *, changelog: str, client: str) -> None:
    """Exit with the reason unless the changelog and the client have this version.

    A development version, such as 0.2.0.dev0, is what the changelog calls Unreleased; npm writes it 0.2.0-dev.0.
    """
    latest = re.search(r"^## (\S+)", changelog, re.M)
    wanted = "Unreleased" if ".dev" in version else version
    if not latest or latest[1] != wanted:
        found = latest and latest[1]
        raise SystemExit(
            f"pyproject.toml has the version {version!r}, but the first entry of CHANGELOG.md is {found!r}, not"
            f" {wanted!r}. For a release, give both its version; after it, start with 'Unreleased' and the next .dev0."
        )
    if client != version.replace(".dev", "-dev."):
        raise SystemExit(f"pyproject.toml has the version {version!r}, but clients/typescript/package.json {client!r}.")


def write_bill_of_materials(path: Path) -> None:
    """Write the packages that the server needs, with their hashes, and those whose code is in the dashboard."""
    program = ROOT / ".venv/release/bin/python"
    words = ["requirements", REQUIREMENTS, "--pyproject", ROOT / "pyproject.toml", "--output-reproducible"]
    bill = json.loads(output(program, "-W", "ignore", "-m", "cyclonedx_py", *words))
    bundled = re.findall(r"^## (\S+) - (\S+) \((.+)\)$", DASHBOARD_LICENCES.read_text("utf-8"), re.M)
    bill["components"] += [npm_component(*each) for each in bundled]
    path.write_text(json.dumps(bill, indent=2, sort_keys=True) + "\n", "utf-8")


def npm_component(name: str, version: str, licence: str) -> dict[str, object]:
    address = f"pkg:npm/{name.replace('@', '%40')}@{version}"
    licences = [{"expression": licence}]
    return {
        "type": "library", "bom-ref": address, "purl": address, "name": name, "version": version, "licenses": licences,
    }  # fmt: skip


def compress(source: Path, target: Path) -> None:
    """Compress a file without its name and time."""
    with source.open("rb") as plain, target.open("wb") as file, gzip.GzipFile("", "wb", 6, file, mtime=0) as packed:
        shutil.copyfileobj(plain, packed, 1 << 20)


def output(*words: str | Path, folder: Path = ROOT) -> str:
    return subprocess.run(words, cwd=folder, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve() if sys.argv[1:] else None)
