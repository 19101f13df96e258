"""The artefacts as they are deployed: both layers built by ``layers/build.py``, and template.yaml
with them on an emulator of AWS.

The emulator runs in an environment without Turnstile, so its functions find nothing but what is in
the layers. ``make test-artefacts``.
"""

from __future__ import annotations

import marshal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import MAGIC_NUMBER
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.fakes import delta
from tests.support.stack import Table, commit_info, eventually, now_ms
from turnstile.api import packs
from turnstile_local.deployment import aws_client
from turnstile_local.emulator import KEYS, LAYERS, Deployed, build, deploy_to, own_architecture, own_ministack

pytestmark = [pytest.mark.slow]
TOKEN = "a token for tests"
UNPACKED_MAX_MB = 250
"""Of a function with its layers. Source: Lambda's quotas."""


@dataclass
class Emulated:
    """The deployment, as the tests of stacks see it."""

    address: str
    deployed: Deployed

    def client(self) -> httpx.Client:
        headers = {"authorization": f"Bearer {TOKEN}"}
        return httpx.Client(base_url=self.deployed.url, headers=headers, timeout=60, trust_env=False)

    def aws(self, service: str) -> Any:
        return aws_client(service, self.address, KEYS)


@pytest.fixture(scope="module")
def layers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The built layers, by their names in the template."""
    folder = tmp_path_factory.mktemp("layers")
    return {name: build(layer, folder / layer, own_architecture()) for name, layer in LAYERS.items()}


@pytest.fixture(scope="module")
def stack(layers: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulated]:
    folder = tmp_path_factory.mktemp("emulator")
    with own_ministack(folder) as address:
        look = [folder / "environment" / "bin" / "python", "-c", "import turnstile"]
        assert subprocess.run(look, check=False, capture_output=True).returncode, "Turnstile is in the layers alone"
        deployed = deploy_to(address, "s3://lake/warehouse/", TOKEN, layers=layers, architecture=own_architecture())
        made = Emulated(address, deployed)
        with made.client() as api:
            for path, name in (("/v1/catalogs", "main"), ("/v1/catalogs/main/namespaces", "default")):
                assert eventually(
                    lambda path=path, name=name: api.post(path, json={"name": name}).status_code in (201, 409)
                )
        yield made


def size_mb(folder: Path) -> float:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) / 1e6


def test_the_layers_fit_and_every_module_of_theirs_is_compiled(layers: dict[str, Path]) -> None:
    sizes = {name: size_mb(folder) for name, folder in layers.items()}
    print({name: f"{mb:.1f} MB" for name, mb in sizes.items()})
    assert sum(sizes.values()) < UNPACKED_MAX_MB
    for folder in layers.values():
        sources = list(folder.rglob("*.py"))
        compiled = set(index_of(folder / "python" / packs.NAME)) | {
            name_of(file.parent.parent / f"{file.name.partition('.')[0]}.py", folder) for file in folder.rglob("*.pyc")
        }
        assert sources and not {name_of(source, folder) for source in sources} - compiled


def index_of(pack: Path) -> packs.Index:
    """The index of a layer's pack; an empty one if it has none."""
    if not pack.exists():
        return {}
    content = pack.read_bytes()
    assert content.startswith(packs.FORMAT + MAGIC_NUMBER)
    index: packs.Index = marshal.loads(content[packs.HEADER_BYTES :])
    return index


def name_of(source: Path, folder: Path) -> str:
    return ".".join(source.relative_to(folder / "python").with_suffix("").parts).removesuffix(".__init__")


def test_the_functions_find_turnstile_in_the_layers_and_nowhere_else(stack: Emulated) -> None:
    functions = stack.aws("lambda").list_functions()["Functions"]
    assert functions and all(each["Architectures"] == [own_architecture()] and each["Layers"] for each in functions)
    with stack.client() as api:
        assert api.get("/v1").status_code == 200
        assert api.get("/v1/catalogs", headers={"authorization": ""}).status_code == 401


def test_a_table_is_created_committed_to_and_published_by_the_deployed_functions(stack: Emulated) -> None:
    table = Table(stack)  # type: ignore[arg-type]
    assert table.append(1)["commit"]["kind"] == "inline"
    assert table.stage(2)["commit"]["kind"] == "staged"
    for version in range(3, 21):
        table.append(version)
    assert [commit_info(table.published(version))["operation"] for version in (1, 2, 20)] == ["WRITE"] * 3
    head = eventually(lambda: (found := table.get("head"))["floor"] == 20 and found)
    assert head["latest"] == 20


def test_i28_a_table_of_a_branch_gets_its_log_from_the_function_with_pyarrow_and_is_promoted(stack: Emulated) -> None:
    """No function that serves clients here has pyarrow."""
    table = Table(stack)  # type: ignore[arg-type]
    table.append(1)
    branches = "/v1/catalogs/main/branches"
    with stack.client() as api:
        assert api.post(branches, json={"name": "dev"}).status_code == 201
        loaded = api.get(f"/v1/catalogs/main@dev/namespaces/default/tables/{table.name}")
        assert loaded.status_code == 200, loaded.text
        of_branch = loaded.json()
        assert of_branch["latest"] == 1 and of_branch["location"].endswith(f"_branches/{of_branch['table_id']}")
        content = delta.append("of-the-branch", now_ms()).decode()
        body = {"version": 2, "inline": {"content": content}}
        committed = api.post(f"/v1/tables/{of_branch['table_id']}/commits", json=body)
        assert committed.status_code == 200, committed.text
        promoted = api.post(f"{branches}/dev/promote", json={})
        assert promoted.status_code == 200, promoted.text
        assert table.get("head")["latest"] == 2


def test_the_other_apis_answer_too(stack: Emulated) -> None:
    with stack.client() as api:
        for path in ("/api/2.1/unity-catalog/catalogs", "/iceberg/v1/config?warehouse=main", "/v1/transactions"):
            answer = api.get(path)
            assert answer.status_code == 200, f"{path}: {answer.text}"
