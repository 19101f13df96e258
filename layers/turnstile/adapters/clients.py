"""AWS clients, built once per process.

Time limits grow outwards: these clients < function < gateway < HTTP client. The clients' own retries are off, because
``calls.py`` and ``storage_s3.py`` retry themselves, count every request, and know which faults may have had effect.
"""

from __future__ import annotations

import os
from functools import cache
from typing import TYPE_CHECKING, Any, cast

import botocore.session
from botocore.config import Config

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_s3 import S3Client

CONNECT_SECONDS = 1.0
DYNAMODB_READ_SECONDS = 3.0
S3_READ_SECONDS = 3.0
CONNECTIONS = 32

_DEFAULT_REGION = "us-east-1"  # emulators serve any; on AWS the function's environment names it


def _create(service: str, endpoint_url: str | None, config: Config) -> Any:
    session = botocore.session.get_session()
    region = session.get_config_variable("region") or _DEFAULT_REGION
    return session.create_client(service, region, endpoint_url=endpoint_url, config=config)


@cache
def dynamodb(endpoint_url: str | None) -> DynamoDBClient:
    """The DynamoDB client for ``endpoint_url`` (None: AWS, or AWS_ENDPOINT_URL)."""
    config = Config(
        connect_timeout=CONNECT_SECONDS,
        read_timeout=DYNAMODB_READ_SECONDS,
        retries={"mode": "standard", "total_max_attempts": 1},
        max_pool_connections=CONNECTIONS,
        parameter_validation=False,  # the models serialise; validation would walk every row again
        tcp_keepalive=True,
    )
    return cast("DynamoDBClient", _create("dynamodb", endpoint_url, config))


@cache
def s3(endpoint_url: str | None) -> S3Client:
    """The S3 client; emulators are addressed by path, since bucket host names do not resolve there."""
    emulator = endpoint_url or os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    config = Config(
        connect_timeout=CONNECT_SECONDS,
        read_timeout=S3_READ_SECONDS,
        retries={"mode": "standard", "total_max_attempts": 1},
        max_pool_connections=CONNECTIONS,
        s3={"addressing_style": "path" if emulator else "auto"},
        tcp_keepalive=True,
    )
    return cast("S3Client", _create("s3", endpoint_url, config))


@cache
def sts(endpoint_url: str | None) -> Any:
    """The STS client, which asks the region's own endpoint."""
    config = Config(
        connect_timeout=CONNECT_SECONDS,
        read_timeout=S3_READ_SECONDS,
        retries={"mode": "standard", "total_max_attempts": 2},
    )
    return _create("sts", endpoint_url, config)
