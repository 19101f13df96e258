"""Create or update the CloudFormation stack in the emulator."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Any, Final

from turnstile_local.errors import StackError
from turnstile_local.settings import CODE_BUCKET, REGION, STACK_NAME

if TYPE_CHECKING:
    from turnstile_local.package import Package

DEPLOY_SECONDS: Final = 60.0

TEMPLATE_KEY: Final = "template.json"
"""The template goes the way that `sam deploy` sends it, through a bucket: sent along it may have 51,200 bytes only."""


def client(service: str, url: str) -> Any:
    """A boto3 client of the emulated AWS at ``url``, which no setting of the user's leads elsewhere."""
    import boto3
    from botocore.config import Config

    config = Config(
        proxies={}, retries={"mode": "standard", "max_attempts": 2}, read_timeout=DEPLOY_SECONDS,
        s3={"addressing_style": "path"},
    )  # fmt: skip
    return boto3.Session(aws_access_key_id="test", aws_secret_access_key="test", region_name=REGION).client(  # noqa: S106
        service, endpoint_url=url, config=config
    )


def deploy(url: str, package: Package, parameters: dict[str, str]) -> dict[str, str]:
    """Bring the emulator to the package's state; returns the stack's outputs. Raises StackError with the reason."""
    s3 = client("s3", url)
    with contextlib.suppress(s3.exceptions.BucketAlreadyOwnedByYou, s3.exceptions.BucketAlreadyExists):
        s3.create_bucket(Bucket=CODE_BUCKET)
    for key, content in package.archives.items():
        s3.put_object(Bucket=CODE_BUCKET, Key=key, Body=content)
    s3.put_object(Bucket=CODE_BUCKET, Key=TEMPLATE_KEY, Body=package.template.encode())

    formation = client("cloudformation", url)
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
            raise _refused(error) from error
    return _wait(formation)


def _refused(error: Any) -> StackError:
    """The template's rules and the patterns of its parameters are judged before anything is created."""
    return StackError(
        f"template.yaml refuses these parameters: {error.response['Error']['Message']}",
        remedy="docs/deploy.md explains them",
        kind="DeployFailed",
    )


def _describe(formation: Any) -> dict[str, Any] | None:
    try:
        found = formation.describe_stacks(StackName=STACK_NAME)["Stacks"]
    except formation.exceptions.ClientError as error:
        if "does not exist" in str(error):
            return None
        raise
    return found[0] if found else None


def _wait(formation: Any) -> dict[str, str]:
    deadline = time.monotonic() + DEPLOY_SECONDS
    status = "unknown"
    while time.monotonic() < deadline:
        found = _describe(formation) or {"StackStatus": "missing"}
        status = found["StackStatus"]
        if status in ("CREATE_COMPLETE", "UPDATE_COMPLETE"):
            return {item["OutputKey"]: item["OutputValue"] for item in found.get("Outputs", [])}
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
