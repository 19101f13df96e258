"""Deploys template.yaml to the emulator: packs the functions, and creates or updates the
CloudFormation stack."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import time
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Self

import yaml

from turnstile_local.errors import StackError
from turnstile_local.settings import CODE_BUCKET, REGION, SECRET_ARN, SECRET_NAME, STACK_NAME, Keys

Template = dict[str, Any]

DEPLOY_SECONDS: Final = 60.0

TEMPLATE_KEY: Final = "template.json"
"""The template goes the way that `sam deploy` sends it, through a bucket: sent along it may have
51,200 bytes only."""

_EPOCH: Final = (1980, 1, 1, 0, 0, 0)
"""The same sources must give the same archive, whenever and wherever they are packed."""

_CODE: Final = {"AWS::Serverless::Function": "CodeUri", "AWS::Serverless::LayerVersion": "ContentUri"}


@dataclass(frozen=True)
class Deployment:
    """A deployment to make. ``digest`` is of template, code and parameters together."""

    package: Package
    parameters: dict[str, str]
    secret: dict[str, str]
    digest: str

    @classmethod
    def of(cls, lake_root: str, token: str, keys: str, functions: Path | None, overrides: dict[str, str]) -> Self:
        """Pack the project for a stack with its tables below ``lake_root``.

        Args:
            token: of the operator. Without one, and unless ``overrides`` says otherwise, every
                caller that reaches the stack may do everything; it listens on loopback only
                (``settings.HOST``).
            keys: of the access tokens that the stack issues itself. Token and keys are kept as the
                functions' secret, unless the stack is open to every caller.
            functions: folder of functions that replace the project's own.
            overrides: further parameters of the template.
        """
        parameters = parameters_for(lake_root, token, overrides)
        package = Package.of(project_root(), functions)
        return cls(package, parameters, {"token": token, "token_keys": keys}, package.digest(parameters))

    @property
    def is_open(self) -> bool:
        """Whether the stack is open: every caller that reaches it may do everything."""
        return self.parameters["Authentication"] == "none"

    def carry_out(
        self, url: str, keys: Keys, outputs: dict[str, str] | None, ready: Callable[[], None]
    ) -> dict[str, str]:
        """Deploy at ``url`` once ``ready`` returns; returns the stack's outputs.

        ``outputs`` come from the last deployment, if it was exactly this one and the emulator still
        has it: nothing is done then.
        """
        if outputs is None:
            aws_client("cloudformation", url, keys)  # imports take as long as the emulator's start: do both at once
        ready()
        if not self.is_open:
            keep_secret(url, keys, self.secret)
        return deploy(url, keys, self.package, self.parameters) if outputs is None else outputs


def keep_secret(url: str, keys: Keys, members: Mapping[str, str]) -> None:
    """Writes the secret that the functions read; ``parameters_for`` names its ARN."""
    given = {name: value for name, value in members.items() if value}
    aws_client("ssm", url, keys).put_parameter(
        Name=SECRET_NAME, Type="SecureString", Overwrite=True, Value=json.dumps(given)
    )


def parameters_for(lake_root: str, token: str, overrides: Mapping[str, str] = MappingProxyType({})) -> dict[str, str]:
    """Parameters of template.yaml for a throw-away stack; as ``Deployment.of``. One that is not
    open needs ``keep_secret`` first."""
    is_open = not (token or overrides.get("StaticTokens") or overrides.get("OidcIssuer"))
    return {
        "LakeRoot": lake_root,
        "Authentication": "none" if is_open else "required",
        "Secret": "" if is_open else SECRET_ARN,
        "IssueTokens": "false" if is_open else "true",
        "LayerMode": "none",
        "DeletionProtection": "false",
        **overrides,
    }


@dataclass(frozen=True)
class Package:
    """A template ready for CreateStack, and the archives it names by key in the code bucket."""

    template: str
    archives: dict[str, bytes]

    @classmethod
    def of(
        cls,
        root: Path,
        functions: Path | None = None,
        *,
        layers: Mapping[str, Path] = MappingProxyType({}),
        architecture: str | None = None,
    ) -> Self:
        """Packs the template and the functions of the project at ``root``.

        Functions in the folder ``functions`` replace the project's functions of the same names, for
        tests that bring their own. ``layers`` are the folders of built layers by their names in the
        template, for ``architecture``. Without them the functions import from the environment that
        the stack runs in.
        """
        template = read_template(root / "template.yaml")
        if architecture is not None:
            template["Globals"]["Function"]["Architectures"] = [architecture]
        archives: dict[str, bytes] = {}
        for name, resource in template["Resources"].items():
            member = _CODE.get(resource["Type"])
            if member is None:
                continue
            if member == "CodeUri":
                folder = root / resource["Properties"][member]
                own = functions / folder.name if functions else folder
                folder = own if own.is_dir() else folder
            elif name in layers:
                folder = layers[name]
                if architecture is not None:
                    resource["Properties"]["CompatibleArchitectures"] = [architecture]
            else:
                resource["Properties"][member] = f"s3://{CODE_BUCKET}/unused.zip"
                continue
            content = _archive(folder, compressed=name in layers)
            key = f"{folder.name}-{hashlib.sha256(content).hexdigest()[:16]}.zip"
            archives[key] = content
            resource["Properties"][member] = f"s3://{CODE_BUCKET}/{key}"
        return cls(json.dumps(template), archives)

    def digest(self, parameters: dict[str, str]) -> str:
        """Name of this template with this code and these parameters."""
        text = self.template + json.dumps(parameters, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()


def project_root() -> Path:
    """The folder of template.yaml: ``TURNSTILE_PROJECT``, else the checkout this package lies
    in."""
    named = os.environ.get("TURNSTILE_PROJECT")
    root = Path(named) if named else Path(__file__).resolve().parents[2]
    if not (root / "template.yaml").is_file():
        raise StackError(
            f"there is no template.yaml in {root}",
            remedy="name the folder of the checkout in TURNSTILE_PROJECT",
            kind="NoTemplate",
        )
    return root


def _archive(folder: Path, *, compressed: bool) -> bytes:
    """The files of a folder as a zip: the same bytes for the same files."""
    if not folder.is_dir():
        raise StackError(f"the function's folder {folder} does not exist", kind="NoCode")
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED if compressed else zipfile.ZIP_STORED) as archive:
        for path in sorted(folder.rglob("*")):
            name = path.relative_to(folder)
            left_out = any(part.startswith(".") or (part == "__pycache__" and not compressed) for part in name.parts)
            if path.is_file() and not left_out:
                archive.writestr(zipfile.ZipInfo(name.as_posix(), _EPOCH), path.read_bytes(), archive.compression)
    return out.getvalue()


def aws_client(service: str, url: str, keys: Keys) -> Any:
    """A boto3 client of the emulated AWS at ``url`` that signs by ``keys``, independent of the
    user's AWS settings."""
    import boto3
    from botocore.config import Config

    config = Config(
        proxies={}, retries={"mode": "standard", "max_attempts": 2}, read_timeout=DEPLOY_SECONDS,
        s3={"addressing_style": "path"},
    )  # fmt: skip
    session = boto3.Session(
        aws_access_key_id=keys.access_key, aws_secret_access_key=keys.secret_key, region_name=REGION
    )
    return session.client(service, endpoint_url=url, config=config)


def deploy(url: str, keys: Keys, package: Package, parameters: dict[str, str]) -> dict[str, str]:
    """Creates or updates the stack; returns its outputs. Raises StackError with the reason."""
    s3 = aws_client("s3", url, keys)
    buckets = [CODE_BUCKET]
    if parameters["LakeRoot"].startswith(
        "s3://"
    ):  # the template's own bucket refuses requests without TLS, and there is none here
        buckets.append(parameters["LakeRoot"].removeprefix("s3://").partition("/")[0])
    for bucket in buckets:
        with contextlib.suppress(s3.exceptions.BucketAlreadyOwnedByYou, s3.exceptions.BucketAlreadyExists):
            s3.create_bucket(Bucket=bucket)
    for key, content in package.archives.items():
        s3.put_object(Bucket=CODE_BUCKET, Key=key, Body=content)
    s3.put_object(Bucket=CODE_BUCKET, Key=TEMPLATE_KEY, Body=package.template.encode())

    formation = aws_client("cloudformation", url, keys)
    arguments: dict[str, Any] = {
        "StackName": STACK_NAME,
        "TemplateURL": f"{url}/{CODE_BUCKET}/{TEMPLATE_KEY}",
        "Parameters": [{"ParameterKey": name, "ParameterValue": value} for name, value in parameters.items()],
        "Capabilities": ["CAPABILITY_IAM", "CAPABILITY_AUTO_EXPAND"],
    }
    change = formation.create_stack if _describe(formation) is None else formation.update_stack
    try:
        change(**arguments)
    except formation.exceptions.ClientError as error:
        if "No updates are to be performed" not in str(error):
            raise _refusal(error) from error
    return _wait(formation)


def _refusal(error: Any) -> StackError:
    """CloudFormation checks the template's rules and the patterns of its parameters before it
    creates anything."""
    return StackError(
        f"template.yaml refuses these parameters: {error.response['Error']['Message']}",
        remedy="docs/deploy.md explains them",
        kind="DeployFailed",
    )


def _describe(formation: Any) -> dict[str, Any] | None:
    try:
        stacks = formation.describe_stacks(StackName=STACK_NAME)["Stacks"]
    except formation.exceptions.ClientError as error:
        if "does not exist" in str(error):
            return None
        raise
    return stacks[0] if stacks else None


def _wait(formation: Any) -> dict[str, str]:
    deadline = time.monotonic() + DEPLOY_SECONDS
    status = "unknown"
    while time.monotonic() < deadline:
        stack = _describe(formation) or {"StackStatus": "missing"}
        status = stack["StackStatus"]
        if status in ("CREATE_COMPLETE", "UPDATE_COMPLETE"):
            return {item["OutputKey"]: item["OutputValue"] for item in stack.get("Outputs", [])}
        if status.endswith(("_FAILED", "ROLLBACK_COMPLETE")):
            break
        time.sleep(0.05)
    events = formation.describe_stack_events(StackName=STACK_NAME)["StackEvents"]
    reasons = [
        f"{event['LogicalResourceId']}: {event.get('ResourceStatusReason', '')}"
        for event in events
        if "FAILED" in event["ResourceStatus"]
    ]
    raise StackError(
        f"template.yaml could not be deployed ({status}): {'; '.join(reasons[:5])}",
        remedy="correct template.yaml, or start afresh with another --home",
        kind="DeployFailed",
    )


def read_template(path: Path) -> Template:
    """The template at ``path`` with every short tag written out."""
    template = yaml.load(path.read_text(), Loader=_Loader)  # noqa: S506  (a SafeLoader, libyaml's where there is one)
    assert isinstance(template, dict)
    return template


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """YAML in which ``!Name value`` stands for ``{"Fn::Name": value}``."""


def _short_tag(loader: _Loader, suffix: str, node: yaml.Node) -> dict[str, Any]:
    value: Any
    if isinstance(node, yaml.ScalarNode):
        value = loader.construct_scalar(node)
    elif isinstance(node, yaml.SequenceNode):
        value = loader.construct_sequence(node, deep=True)
    else:
        assert isinstance(node, yaml.MappingNode)
        value = loader.construct_mapping(node, deep=True)
    if suffix in ("Ref", "Condition"):
        return {suffix: value}
    if suffix == "GetAtt" and isinstance(value, str):
        value = value.split(".", 1)
    return {f"Fn::{suffix}": value}


yaml.add_multi_constructor("!", _short_tag, Loader=_Loader)
