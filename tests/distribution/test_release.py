"""A release: the files of `make release`, and packages that are installed as tested."""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from deploy.release import check_versions
from tests.house.tree import ROOT

pytestmark = pytest.mark.spec("SHIP-10")

REQUIREMENTS = ROOT / "deploy/requirements.txt"
TOOLS = ROOT / ".venv/release/bin"
DEVELOPED = "# Changelog\n\n## Unreleased\n- A change.\n\n## 1.2.0 - 2027-01-02\n"
RELEASED = DEVELOPED.replace("## Unreleased\n- A change.\n\n", "")


def version() -> str:
    return tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]


def npm_version() -> str:
    return json.loads((ROOT / "clients/typescript/package.json").read_text("utf-8"))["version"]


def pinned(path: Path) -> dict[str, Requirement]:
    """Return the requirements of a file by their names."""
    lines = re.findall(r"^(\w[^\\\n]*)", path.read_text("utf-8"), re.M)
    return {canonicalize_name(each.name): each for each in map(Requirement, lines)}


def needed(name: str, extras: frozenset[str] = frozenset()) -> set[tuple[str, frozenset[str]]]:
    """Return the installed packages that a package needs on this system, itself included, each with its extras."""
    found: set[tuple[str, frozenset[str]]] = set()
    todo = {(name, extras)}
    while todo:
        found |= todo
        todo = {
            (canonicalize_name(each.name), frozenset(each.extras))
            for package, wanted in todo
            for each in map(Requirement, requires(package) or [])
            if each.marker is None or any(each.marker.evaluate({"extra": extra}) for extra in wanted | {""})
        } - found
    return found


def test_the_packages_with_hashes_are_the_ones_that_the_tests_use() -> None:
    hashed, tested = pinned(REQUIREMENTS), pinned(ROOT / "constraints.txt")
    names = {name for name, _ in needed("circadia", frozenset({"otel", "redis"}))} - {"circadia"}
    assert names - hashed.keys() == set(), "run `make hashes`"
    assert {name for name, each in hashed.items() if each.marker is None} - names == set(), "run `make hashes`"
    versions = {name: each.specifier for name, each in hashed.items() if name in tested}
    assert versions == {name: tested[name].specifier for name in versions}, "run `make hashes`"
    assert [str(each) for name, each in hashed.items() if name not in tested and each.marker is None] == []


def test_every_package_has_hashes_and_no_address() -> None:
    text = REQUIREMENTS.read_text("utf-8")
    assert all("--hash=sha256:" in each for each in re.split(r"\n(?=\w)", text)[1:])
    assert not re.search(r"://|^-", text, re.M)


def test_the_files_that_name_a_version_name_the_one_of_pyproject() -> None:
    check_versions(version(), changelog=(ROOT / "CHANGELOG.md").read_text("utf-8"), client=npm_version())
    files = [*ROOT.glob("deploy/**/*.y*ml"), *ROOT.glob("docs/**/*.md"), ROOT / "README.md"]
    named = {
        (str(path.relative_to(ROOT)), found)
        for path in files
        for found in re.findall(r"(?:circadia:|VERSION=|newTag: )(\d+\.\w[\w.]+)", path.read_text("utf-8"))
    }
    assert len({path for path, _ in named}) >= 3
    assert [each for each in named if each[1] != version()] == []


@pytest.mark.parametrize(
    ("number", "changelog", "client"), [("1.3.0.dev0", DEVELOPED, "1.3.0-dev.0"), ("1.2.0", RELEASED, "1.2.0")]
)
def test_a_version_fits_the_first_entry_of_the_changelog(number: str, changelog: str, client: str) -> None:
    check_versions(number, changelog=changelog, client=client)


@pytest.mark.parametrize(
    ("number", "changelog", "client", "reason"),
    [
        ("1.3.0", DEVELOPED, "1.3.0", "CHANGELOG.md is 'Unreleased', not '1.3.0'"),
        ("1.3.0", RELEASED, "1.3.0", "CHANGELOG.md is '1.2.0', not '1.3.0'"),
        ("1.3.0.dev0", RELEASED, "1.3.0-dev.0", "CHANGELOG.md is '1.2.0', not 'Unreleased'"),
        ("1.2.0", RELEASED, "1.1.0", "package.json '1.1.0'"),
    ],
)
def test_a_release_of_another_version_than_the_changelog_or_the_client_is_refused(
    number: str, changelog: str, client: str, reason: str
) -> None:
    with pytest.raises(SystemExit, match=reason):
        check_versions(number, changelog=changelog, client=client)


def test_a_release_of_what_is_not_committed_is_refused(tmp_path: Path) -> None:
    for name in ("deploy/release.py", "pyproject.toml", "clients/typescript/package.json"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        text = (ROOT / name).read_text("utf-8").replace(version(), "1.2.0").replace(npm_version(), "1.2.0")
        (tmp_path / name).write_text(text, "utf-8")
    (tmp_path / "CHANGELOG.md").write_text(RELEASED, "utf-8")
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    refused = subprocess.run([sys.executable, tmp_path / "deploy/release.py"], capture_output=True, text=True)
    assert refused.returncode == 1
    assert "Commit or undo these changes first:\n?? CHANGELOG.md" in refused.stderr
    assert not (tmp_path / "dist").exists()


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_release_has_all_files_with_checksums_and_a_second_one_has_the_same_bytes(tmp_path: Path) -> None:
    words = ["make", "release", *(["RELEASED_IMAGE="] if os.environ.get("CIRCADIA_TEST_NO_CONTAINERS") else [])]
    subprocess.run(words, cwd=ROOT, check=True, capture_output=True)
    first = Path(shutil.move(ROOT / "dist", tmp_path))
    name = f"circadia-{version()}"
    files = {f"{name}{end}" for end in ("-py3-none-any.whl", ".tar.gz", "-requirements.txt", ".cdx.json")}
    client = f"circadia_client-{version()}"
    files |= {f"{client}-py3-none-any.whl", f"{client}.tar.gz", f"circadia-client-{npm_version()}.tgz", "SHA256SUMS"}
    if "RELEASED_IMAGE=" not in words:
        files.add(f"{name}-image.tar.gz")
    assert {path.name for path in first.iterdir()} == files
    subprocess.run(["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=first, check=True)
    assert len((first / "SHA256SUMS").read_text("utf-8").splitlines()) == len(files) - 1
    subprocess.run(words, cwd=ROOT, check=True, capture_output=True)
    assert (ROOT / "dist/SHA256SUMS").read_text("utf-8") == (first / "SHA256SUMS").read_text("utf-8")

    bill = json.loads((first / f"{name}.cdx.json").read_text("utf-8"))
    packages = {each["purl"].partition("@")[0] for each in bill["components"]}
    assert {f"pkg:pypi/{package}" for package in pinned(REQUIREMENTS)} | {"pkg:npm/react"} <= packages
    check = "import sys; from cyclonedx.validation.json import JsonStrictValidator as Validator\n"
    check += "from cyclonedx.schema import SchemaVersion\n"
    check += "sys.exit(Validator(SchemaVersion.V1_6).validate_str(open(sys.argv[1]).read()) and 1)"
    subprocess.run([TOOLS / "python", "-c", check, first / f"{name}.cdx.json"], check=True)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_pip_installs_the_packages_with_hashes_and_refuses_another_file(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "environment"], check=True)
    programs = tmp_path / "environment/bin"
    pip = [programs / "python", "-m", "pip", "install", "-qq", "--no-cache-dir"]
    other = tmp_path / "requirements.txt"
    other.write_text(f"{pinned(REQUIREMENTS)['idna']} --hash=sha256:{'0' * 64}\n", "utf-8")
    refused = subprocess.run([*pip, "--require-hashes", "-r", other], capture_output=True, text=True)
    assert refused.returncode != 0
    assert "THESE PACKAGES DO NOT MATCH THE HASHES" in refused.stderr

    subprocess.run([*pip, "--require-hashes", "-r", REQUIREMENTS], check=True)
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    subprocess.run([*pip, "--no-deps", *tmp_path.glob("*.whl")], check=True)
    subprocess.run([programs / "python", "-m", "pip", "check"], check=True)
    assert subprocess.check_output([programs / "circadia", "--version"], text=True).strip() == version()
