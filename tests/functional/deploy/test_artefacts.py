"""Artefacts: the modules that each function imports, and the content of the layers."""

from __future__ import annotations

import gzip
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import botocore
import botocore.session
import pytest
from botocore.loaders import Loader
from botocore.model import ServiceModel

from layers import build as layers
from tests.support.functions import cold_start
from tests.support.repository import ROOT
from turnstile.adapters.dynamo import transport
from turnstile_local.deployment import read_template

TEMPLATE: Final = read_template(ROOT / "template.yaml")
FUNCTIONS: Final = sorted(path.parent.name for path in (ROOT / "functions").glob("*/app.py"))

EVERYWHERE: Final = {"aws_lambda_powertools", "botocore", "jmespath", "msgspec", "turnstile", "typing_extensions"}
STORES: Final = EVERYWHERE | {"dateutil", "pynamodb", "six", "urllib3"}
HTTP: Final = STORES | {"chalice"}
PACKAGES: Final = {
    "authorizer": EVERYWHERE,
    "events": STORES,
    "gc": STORES,
    "maintain": STORES,
    "publish": STORES,
    "tokens": HTTP | {"_cffi_backend", "cryptography", "jwt"},
}
"""Of each function; of the others ``HTTP``. pyarrow is imported by the first request that reads
Parquet."""

ELSEWHERE: Final = {
    *(f"__editable___turnstile_lake{name}_0_1_0_finder" for name in ("", "_client", "_http", "_predicates", "_spark")),
    "_distutils_hack",
    "blinker",
    "certifi",
}
"""Of a development environment. botocore takes certifi's certificates where they are, and pynamodb
blinker's signals, else their own."""

FOREIGN: Final = {
    "authorizer": ("catalog", "delta", "events", "gc", "iceberg", "maintenance", "transfer"),
    "commit": ("gc", "iceberg", "transfer", "events"),
    "events": ("gc", "iceberg", "maintenance", "transfer"),
    "iceberg": ("gc", "maintenance", "transfer", "events"),
    "publish": ("gc", "iceberg", "maintenance", "transfer", "events"),
    "tokens": ("gc", "iceberg", "maintenance", "transfer", "events"),
}
"""Subjects of which a function needs nothing but decisions (``core``)."""

_REPORT = """
import json, sys
import app
files = {name: getattr(module, "__file__", None) or "" for name, module in list(sys.modules.items())}
print(json.dumps({
    "packages": sorted({name.partition(".")[0] for name, file in files.items() if "site-packages" in file}),
    "own": sorted(name for name in files if name.startswith("turnstile.")),
}))
"""


def imported(function: str) -> dict[str, list[str]]:
    """Modules after a cold start of ``function``, in a process of its own."""
    answer: dict[str, list[str]] = cold_start(function, _REPORT)
    return answer


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_cold_start_imports_what_the_function_needs_and_nothing_else(function: str) -> None:
    modules = imported(function)
    assert set(modules["packages"]) - ELSEWHERE <= PACKAGES.get(function, HTTP)
    subjects = FOREIGN.get(function, ())
    foreign = [
        name for name in modules["own"] if name.split(".")[1] in subjects and name.split(".")[2:3] not in ([], ["core"])
    ]
    assert not foreign


def test_the_shared_layer_lists_no_command_line_and_no_second_client_of_aws() -> None:
    names = set(re.findall(r"^([a-z0-9-]+)==", (ROOT / "layers/shared.txt").read_text(), re.MULTILINE))
    assert not names & {"boto3", "s3transfer", "pip", "setuptools", "wheel", "click", "inquirer", "pyyaml"}


def test_the_layers_are_built_for_the_functions_python_and_architecture() -> None:
    settings = TEMPLATE["Globals"]["Function"]
    assert settings["Runtime"] == "python" + ".".join(map(str, layers.PYTHON))
    assert settings["Architectures"] == ["arm64"]
    makefile = (ROOT / "layers/Makefile").read_text()
    for name, resource in TEMPLATE["Resources"].items():
        if resource["Type"] == "AWS::Serverless::LayerVersion":
            assert resource["Metadata"]["BuildMethod"] == "makefile"
            assert f"build-{name}:" in makefile


def test_a_layer_is_built_by_the_checkout_which_has_a_version_though_sam_works_in_a_copy(tmp_path: Path) -> None:
    def commands(*variables: str) -> str:
        words = [
            "make",
            "--dry-run",
            "--makefile",
            str(ROOT / "layers/Makefile"),
            "build-SharedLayer",
            "ARTIFACTS_DIR=out",
        ]
        return subprocess.run([*words, *variables], cwd=tmp_path, capture_output=True, text=True, check=True).stdout

    usual = commands()
    assert (
        f'"{ROOT / "layers/build.py"}" shared "out/python" --architecture arm64' in usual and "--version" not in usual
    )
    assert '--architecture x86_64 --version "1.2.3"' in commands("ARCHITECTURE=x86_64", "VERSION=1.2.3")


def test_the_services_that_the_code_opens_are_those_that_the_layer_describes() -> None:
    sources = [(ROOT / f"layers/turnstile/adapters/{name}.py").read_text() for name in ("opening", "clients")]
    opened = re.findall(r"make_client\(\s*\"(\w[\w-]*)\"", "".join(sources))
    only_servers = {"dynamodbstreams"}  # functions are sent the records of a stream
    assert set(opened) - only_servers == set(layers.SERVICES) and set(opened) > only_servers


def test_another_python_builds_no_compiled_layer(tmp_path: Path) -> None:
    with pytest.raises(layers.BuildError, match=r"run it by python3\.99"):
        layers.build("shared", tmp_path / "layer", "arm64", python=(3, 99))
    assert not (tmp_path / "layer").exists()


def test_a_folder_with_something_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("x")
    with pytest.raises(layers.BuildError, match="not empty"):
        layers.build("shared", tmp_path, "arm64", compiled=False)
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_every_module_is_compiled_and_the_compiled_form_is_read_whatever_the_time_of_its_source(tmp_path: Path) -> None:
    """Unpacking a layer changes the times of its files, after which Python would compile each
    module again."""
    source = tmp_path / "package" / "module.py"
    source.parent.mkdir()
    source.write_text("VALUE = 1\n")
    layers.compile_modules(tmp_path)
    source.write_text("VALUE = 2, and this would not compile\n")
    done = subprocess.run(
        [sys.executable, "-c", "from package.module import VALUE; print(VALUE)"], cwd=tmp_path, capture_output=True,
        text=True, check=True,
    )  # fmt: skip
    assert done.stdout == "1\n"


def test_a_module_that_does_not_compile_fails_the_build(tmp_path: Path) -> None:
    (tmp_path / "module.py").write_text("this is no Python\n")
    with pytest.raises(layers.BuildError, match="does not compile"):
        layers.compile_modules(tmp_path)


def test_descriptions_have_no_texts_but_every_shape_and_its_members(tmp_path: Path) -> None:
    service = tmp_path / "ssm/2014-11-06"
    service.mkdir(parents=True)
    described = {
        "documentation": "<p>Long</p>",
        "shapes": {"One": {"members": {"documentation": {"shape": "Text", "documentation": "x"}}}},
    }
    (service / "service-2.json.gz").write_bytes(gzip.compress(json.dumps(described).encode()))
    layers.leave_out_documentation(tmp_path)
    assert [path.name for path in service.iterdir()] == ["service-2.json"]
    kept = json.loads((service / "service-2.json").read_text())
    assert kept == {"shapes": {"One": {"members": {"documentation": {"shape": "Text"}}}}}


@pytest.mark.parametrize("service", layers.SERVICES)
def test_a_description_without_texts_says_the_same_of_every_operation(service: str, tmp_path: Path) -> None:
    def without(value: Any) -> Any:
        if isinstance(value, list):
            return [without(each) for each in value]
        if isinstance(value, dict):
            return {
                name: without(each) for name, each in value.items() if name != "documentation" or isinstance(each, dict)
            }
        return value

    whole = Path(botocore.__file__).parent / "data"
    data = tmp_path / "data"
    shutil.copytree(whole / service, data / service)
    layers.leave_out_documentation(data)
    kept = Loader(extra_search_paths=[str(data)], include_default_search_paths=False)
    all_of_it = Loader()
    for kind in ("service-2", "endpoint-rule-set-1"):
        assert without(kept.load_service_model(service, kind)) == without(all_of_it.load_service_model(service, kind))


@pytest.mark.parametrize("service", layers.SERVICES)
def test_botocore_makes_a_client_of_a_description_without_texts(service: str, tmp_path: Path) -> None:
    whole = Path(botocore.__file__).parent / "data"
    data = tmp_path / "data"
    shutil.copytree(whole / service, data / service)
    for file in whole.glob("*.json"):
        shutil.copy(file, data)
    layers.leave_out_documentation(data)
    session = botocore.session.Session()
    loader = Loader(extra_search_paths=[str(data)], include_default_search_paths=False)
    session.register_component("data_loader", loader)
    client = session.create_client(service, "us-east-1", aws_access_key_id="a", aws_secret_access_key="b")
    assert client.meta.method_to_api_mapping
    assert isinstance(client.meta.service_model.client_context_parameters, list)


@pytest.mark.parametrize("service", layers.SERVICES)
def test_a_description_keeps_the_called_operations_with_all_their_shapes(service: str, tmp_path: Path) -> None:
    whole = Path(botocore.__file__).parent / "data"
    data = tmp_path / "data"
    shutil.copytree(whole / service, data / service)
    layers.leave_out_documentation(data)
    before = Loader(extra_search_paths=[str(data)], include_default_search_paths=False)
    described = ServiceModel(before.load_service_model(service, "service-2"))
    layers.leave_out_operations(data)
    after = Loader(extra_search_paths=[str(data)], include_default_search_paths=False)
    kept = ServiceModel(after.load_service_model(service, "service-2"))
    assert sorted(kept.operation_names) == sorted(layers.SERVICES[service])
    for name in kept.operation_names:
        for part in ("input_shape", "output_shape", "error_shapes"):
            assert shape_of(getattr(kept.operation_model(name), part)) == shape_of(
                getattr(described.operation_model(name), part)
            )
    assert kept.metadata == described.metadata


def shape_of(shape: Any, above: tuple[str, ...] = ()) -> Any:
    """Returns a shape, or a list of shapes, with all members as plain values."""
    if shape is None or isinstance(shape, list):
        return [shape_of(each) for each in shape or ()]
    if shape.name in above:
        return shape.name
    above = (*above, shape.name)
    members = {name: shape_of(each, above) for name, each in getattr(shape, "members", {}).items()}
    parts = [shape_of(getattr(shape, part), above) for part in ("member", "key", "value") if hasattr(shape, part)]
    return [shape.name, shape.type_name, shape.serialization, shape.metadata, members, parts]


def test_the_kept_operations_of_dynamodb_are_those_of_the_adapter() -> None:
    assert layers.SERVICES["dynamodb"] == transport._OPERATIONS


def test_operations_that_roles_allow_are_kept() -> None:
    template = (ROOT / "template.yaml").read_text()
    actions = set(
        re.findall(r"\b(dynamodb|emr-serverless|events|lambda|s3|secretsmanager|ssm|sts):([A-Z]\w+)", template)
    )
    streams = {"DescribeStream", "GetRecords", "GetShardIterator", "ListStreams"}
    same = {"InvokeFunction": "Invoke", "ListBucket": "ListObjectsV2", "ConditionCheckItem": "TransactWriteItems"}
    called = {(service, same.get(action, action)) for service, action in actions if action not in streams}
    conditions = {("dynamodb", "LeadingKeys"), ("s3", "ObjectCreationOperation")}
    kept = {(service, operation) for service, operations in layers.SERVICES.items() for operation in operations}
    assert called - conditions - {("lambda", "ARN")} <= kept


def test_descriptions_of_other_services_are_left_out(tmp_path: Path) -> None:
    for name in ("dynamodb", "ec2"):
        (tmp_path / name).mkdir()
    services = {name: {"endpoints": {"eu-west-1": {}}} for name in ("dynamodb", "ec2")}
    endpoints = {"version": 3, "partitions": [{"partition": "aws", "services": services}]}
    (tmp_path / "endpoints.json").write_text(json.dumps(endpoints))
    layers.leave_out_services(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["dynamodb", "endpoints.json"]
    kept = json.loads((tmp_path / "endpoints.json").read_text())
    assert kept == {"version": 3, "partitions": [{"partition": "aws", "services": {"dynamodb": services["dynamodb"]}}]}


@pytest.mark.slow
@pytest.mark.parametrize(("layer", "most_bytes"), [("shared", 52_000_000), ("arrow", 190_000_000)])
def test_a_layer_is_built_for_the_other_architecture_and_fits(layer: str, most_bytes: int, tmp_path: Path) -> None:
    """Needs the package index that the environment was installed from. Lambda allows 250 MB for a
    function with its layers."""
    try:
        layers.build(layer, tmp_path / "layer", "arm64", compiled=False)
    except layers.BuildError as error:
        pytest.skip(f"NOT TESTED: {error}")
    files = [path for path in (tmp_path / "layer").rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < most_bytes
    names = [path.name for path in files if path.suffix == ".so"]
    assert any("cpython-313-aarch64-linux" in name for name in names), names[:5]
    assert not [name for name in names if "x86_64" in name]
