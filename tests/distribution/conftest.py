"""The manifests for Kubernetes, rendered once."""

import json
import os
import re
import shutil

import pytest
import yaml

from tests.distribution.manifests import MANIFESTS, OVERLAYS, PAGE, SETS, Json, build
from tests.house.tree import ROOT


@pytest.fixture(scope="session")
def rendered(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Json]]:
    """The objects of each set."""
    (text,) = re.findall(r"^ *```yaml kustomization\n(.*?)^ *```", PAGE, re.M | re.S)
    own = json.dumps(yaml.safe_load(text))
    for_one_server = re.sub(r'"[^"]*/autoscaling", ', "", own.replace("overlays/cluster", "overlays/single"))
    objects = {name: build(MANIFESTS / "overlays" / name) for name in OVERLAYS}
    for name, each, overlay in (("documented", own, "cluster"), (SETS[-1], for_one_server, "single")):
        folder = tmp_path_factory.mktemp("kustomization").resolve()
        clone = os.path.relpath(ROOT, folder)
        (folder / "kustomization.yaml").write_text(each.replace("circadia/deploy", f"{clone}/deploy"), "utf-8")
        shutil.copy(MANIFESTS / "overlays" / overlay / "circadia.yaml", folder)
        objects[name] = build(folder)
    return objects


@pytest.fixture(params=SETS)
def objects(request: pytest.FixtureRequest, rendered: dict[str, list[Json]]) -> list[Json]:
    return rendered[request.param]
