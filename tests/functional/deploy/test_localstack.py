"""Deploying to a LocalStack that runs: where it is, what is sent there. LocalStack itself is not run here; the emulator of
the embedded stack takes its place, which runs the very archives that LocalStack would get."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.support.repository import ROOT
from tests.support.store.servers import ministack
from turnstile_local import localstack
from turnstile_local.deployment import Package, aws_client, read_template
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
def test_localstack_is_where_its_own_tools_find_it(
    monkeypatch: pytest.MonkeyPatch, variable: str | None, value: str, expected: str
) -> None:
    if variable:
        monkeypatch.setenv(variable, value)
    assert localstack.endpoint() == expected


def test_an_address_that_is_none_is_told_with_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCALSTACK_HOST", "stack.test:port")
    with pytest.raises(StackError, match=r"stack\.test:port") as refused:
        localstack.endpoint()
    assert "LOCALSTACK_HOST" in refused.value.remedy


@pytest.mark.parametrize(("machine", "architecture"), [("x86_64", "x86_64"), ("AMD64", "x86_64"), ("aarch64", "arm64")])
def test_functions_are_built_for_the_machine_that_runs_them(
    monkeypatch: pytest.MonkeyPatch, machine: str, architecture: str
) -> None:
    monkeypatch.setattr("platform.machine", lambda: machine)
    assert localstack.own_architecture() == architecture
    template = json.loads(Package.of(ROOT, architecture=architecture).template)
    assert template["Globals"]["Function"]["Architectures"] == [architecture]


def test_a_machine_that_lambda_does_not_know_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    with pytest.raises(StackError, match="riscv64"):
        localstack.own_architecture()


def test_every_archive_carries_the_packages_and_the_same_sources_give_the_same_bytes(tmp_path: Path) -> None:
    (tmp_path / "somewhere").mkdir()
    (tmp_path / "somewhere" / "module.py").write_text("x = 1\n")
    package = Package.of(ROOT, packages=tmp_path)
    assert package.archives == Package.of(ROOT, packages=tmp_path).archives
    functions = [
        one for one in read_template(ROOT / "template.yaml")["Resources"].values() if one["Type"].endswith("::Function")
    ]
    assert len(package.archives) == len({one["Properties"]["CodeUri"] for one in functions})
    for content in package.archives.values():
        names = zipfile.ZipFile(io.BytesIO(content)).namelist()
        assert "app.py" in names and "somewhere/module.py" in names


def test_a_lake_that_containers_do_not_see_is_refused() -> None:
    with pytest.raises(StackError, match="file:///x"):
        localstack.deploy_to("http://127.0.0.1:9", "file:///x", "", packages=None, architecture="x86_64")


@pytest.mark.slow
def test_the_locked_packages_are_built_for_the_functions_python_and_the_other_architecture(tmp_path: Path) -> None:
    """Needs the package index that the environment was installed from."""
    try:
        folder = localstack.build(tmp_path / "packages", "arm64")
    except StackError as error:
        pytest.skip(f"NOT TESTED: {error}")
    names = [str(path.relative_to(folder)) for path in folder.rglob("*.so")]
    assert any("cpython-313-aarch64-linux" in name for name in names), names[:5]
    assert not [name for name in names if "x86_64" in name]
    for module in ("turnstile/api/apps.py", "botocore/__init__.py", "chalice/__init__.py", "msgspec/__init__.py"):
        assert (folder / module).is_file()


@pytest.fixture
def emulator(tmp_path: Path) -> Iterator[str]:
    """The emulator as it is, without the embedded stack around it; as LocalStack it takes any key."""
    folder = tmp_path / "emulator"
    folder.mkdir()
    with ministack(folder) as url:
        yield url


@pytest.mark.slow
def test_the_template_is_deployed_at_the_discovered_address_and_its_api_answers(
    emulator: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = emulator.removeprefix("http://").rstrip("/")
    monkeypatch.setenv("LOCALSTACK_HOST", host)
    address, token = localstack.endpoint(), "a token for tests"
    assert address.rstrip("/") == emulator.rstrip("/")
    deployed = localstack.deploy_to(address, "s3://lake/warehouse/", token, packages=None, architecture="x86_64")
    port = host.rpartition(":")[2]
    assert deployed.url == f"http://{deployed.outputs['ApiId']}.execute-api.localhost.localstack.cloud:{port}"
    functions = aws_client("lambda", address, localstack.KEYS).list_functions()["Functions"]
    assert functions and all(one["Architectures"] == ["x86_64"] and not one.get("Layers") for one in functions)
    buckets = aws_client("s3", address, localstack.KEYS).list_buckets()["Buckets"]
    assert "lake" in {bucket["Name"] for bucket in buckets}
    # The name in the URL is LocalStack's and leads to 127.0.0.1; here the path says the same without asking DNS.
    api = f"{address.rstrip('/')}/_aws/execute-api/{deployed.outputs['ApiId']}/$default/v1"
    answer = httpx.get(api, headers={"authorization": f"Bearer {token}"}, trust_env=False, timeout=60)
    assert answer.status_code == 200 and "version" in answer.json()
    assert httpx.get(api + "/catalogs", trust_env=False, timeout=60).status_code == 401
