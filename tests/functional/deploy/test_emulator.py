"""Deploying to an emulator of AWS that runs: its address and the requests to it. tests/artefacts
runs the built functions."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path

import pytest

from tests.support.repository import ROOT
from turnstile_local import emulator as emulated
from turnstile_local.deployment import Package
from turnstile_local.errors import StackError


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ENDPOINT_URL", "LOCALSTACK_HOST", "EDGE_PORT", "USE_SSL"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("variable", "value", "expected"),
    [
        (None, "", "http://localhost:4566"),
        ("LOCALSTACK_HOST", "stack.test", "http://stack.test:4566"),
        ("LOCALSTACK_HOST", "stack.test:4599", "http://stack.test:4599"),
        ("AWS_ENDPOINT_URL", "http://127.0.0.1:1234", "http://127.0.0.1:1234"),
    ],
)
def test_the_emulator_is_where_localstacks_tools_would_look(
    monkeypatch: pytest.MonkeyPatch, variable: str | None, value: str, expected: str
) -> None:
    if variable:
        monkeypatch.setenv(variable, value)
    assert emulated.endpoint() == expected


def test_an_address_that_is_none_is_reported_with_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCALSTACK_HOST", "stack.test:port")
    with pytest.raises(StackError, match=r"stack\.test:port") as refused:
        emulated.endpoint()
    assert "LOCALSTACK_HOST" in refused.value.remedy


@pytest.mark.parametrize(("machine", "architecture"), [("x86_64", "x86_64"), ("AMD64", "x86_64"), ("aarch64", "arm64")])
def test_functions_are_built_for_the_machine_that_runs_them(
    monkeypatch: pytest.MonkeyPatch, machine: str, architecture: str
) -> None:
    monkeypatch.setattr("platform.machine", lambda: machine)
    assert emulated.own_architecture() == architecture
    template = json.loads(Package.of(ROOT, architecture=architecture).template)
    assert template["Globals"]["Function"]["Architectures"] == [architecture]


def test_a_machine_that_lambda_does_not_know_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    with pytest.raises(StackError, match="riscv64"):
        emulated.own_architecture()


def test_a_layer_goes_into_an_archive_of_its_own_and_the_same_sources_give_the_same_bytes(tmp_path: Path) -> None:
    (tmp_path / "python" / "somewhere").mkdir(parents=True)
    (tmp_path / "python" / "somewhere" / "module.py").write_text("x = 1\n")
    layers = {"SharedLayer": tmp_path}
    package = Package.of(ROOT, layers=layers, architecture="x86_64")
    assert package.archives == Package.of(ROOT, layers=layers, architecture="x86_64").archives
    resources = json.loads(package.template)["Resources"]
    functions = [each for each in resources.values() if each["Type"].endswith("::Function")]
    assert len(package.archives) == len({each["Properties"]["CodeUri"] for each in functions}) + 1
    uri = resources["SharedLayer"]["Properties"]["ContentUri"]
    assert resources["SharedLayer"]["Properties"]["CompatibleArchitectures"] == ["x86_64"]
    content = package.archives[uri.rpartition("/")[2]]
    assert zipfile.ZipFile(io.BytesIO(content)).namelist() == ["python/somewhere/module.py"]


def test_a_lake_that_containers_do_not_see_is_refused() -> None:
    with pytest.raises(StackError, match="file:///x"):
        emulated.deploy_to("http://127.0.0.1:9", "file:///x", "", layers={}, architecture="x86_64")
