"""Constants of the embedded stack, and the environment that it and its clients run in."""

from __future__ import annotations

import os
import secrets
from typing import Final, NamedTuple

HOST: Final = "127.0.0.1"
"""The only interface it listens on."""

REGION: Final = "us-east-1"
API_ID: Final = "turnstile"
"""Pinned by the ``ms-custom-id`` tag of the API in template.yaml."""

STACK_NAME: Final = "turnstile"
CODE_BUCKET: Final = "turnstile-code"
"""Bucket of the emulated S3 that holds the functions' code."""
SECRET_NAME: Final = "/turnstile/secret"  # noqa: S105 - a name
SECRET_ARN: Final = f"arn:aws:ssm:{REGION}:000000000000:parameter{SECRET_NAME}"
"""The parameter of the emulated Parameter Store that has the functions' secret."""

HEALTH: Final = "/_turnstile/health"
SAVE: Final = "/_turnstile/save"
"""POST, signed: write everything to disk now."""
OPEN: Final = "/_turnstile/open"
"""POST, signed: serve the API, which a stack that was killed does not do before its tables were
marked."""

API_ROOTS: Final = ("/v1", "/api/2.1/unity-catalog", "/api/1.0/unity-control", "/oauth", "/iceberg", "/ui")
"""Paths below which everything belongs to the API. A bucket of one of these names could not be
reached by its path."""

ACCESS_KEY: Final = "AWS_ACCESS_KEY_ID"
SECRET_KEY: Final = "AWS_SECRET_ACCESS_KEY"  # noqa: S105 (a name)
"""Where clients of AWS, and the emulator itself, look for their key."""

CONCURRENCY: Final = min(16, max(4, os.cpu_count() or 4))
"""Processes a function may have at a time. AWS has a thousand, a laptop has not; further requests
wait their turn."""


_FOREIGN: Final = (
    "AWS_", "MINISTACK_", "LAMBDA_", "TURNSTILE_", "NO_PROXY", "no_proxy",
    # Without compiled modules a start takes twice as long, and so does each process of a function.
    "PYTHONDONTWRITEBYTECODE",
)  # fmt: skip
"""Variables of the caller's that the gateway and the functions do not see."""


class Keys(NamedTuple):
    """The key by which clients of the emulated AWS sign: its id, which is a secret here as well,
    and its secret."""

    access_key: str
    secret_key: str

    @classmethod
    def random(cls) -> Keys:
        return cls(f"TURNSTILE{secrets.token_hex(16).upper()}", secrets.token_hex(20))


def client_environment(url: str, keys: Keys) -> dict[str, str]:
    """Environment variables that point AWS clients (boto3, S3A, deltalake) at the stack. Secret, as
    ``keys`` are."""
    return {
        "AWS_ENDPOINT_URL": url,
        ACCESS_KEY: keys.access_key,
        SECRET_KEY: keys.secret_key,
        "AWS_REGION": REGION,
        "AWS_DEFAULT_REGION": REGION,
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_ALLOW_HTTP": "true",
    }


def child_environment(*, port: int, state: str, s3: str, tmp: str, roles: bool, keys: Keys) -> dict[str, str]:
    """Environment of the gateway: the caller's, without variables that could lead a function to the
    real AWS.

    ``roles`` makes the emulator hold every function to its role; ``keys`` are the keys of its home.
    """
    environment = {name: value for name, value in os.environ.items() if not name.startswith(_FOREIGN)}
    return environment | {
        "GATEWAY_PORT": str(port),
        "BIND_HOST": HOST,
        ACCESS_KEY: keys.access_key,
        SECRET_KEY: keys.secret_key,
        "AUTH": "true" if roles else "false",
        "PERSIST_STATE": "1",
        "S3_PERSIST": "1",
        "STATE_DIR": state,
        "S3_DATA_DIR": s3,
        "TMPDIR": tmp,
        "MINISTACK_REGION": REGION,
        "AWS_DEFAULT_REGION": REGION,
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "IOT_MTLS_ENABLED": "0",
        "SFTP_ENABLED": "0",
        "LOG_LEVEL": os.environ.get("TURNSTILE_STACK_LOG_LEVEL", "INFO"),
        "NO_PROXY": "127.0.0.1,localhost",
        # The emulator clears away containers at start, those of other programs among them: show it
        # no Docker.
        "DOCKER_HOST": "unix:///nonexistent/docker.sock",
        "PYTHONUNBUFFERED": "1",
    }
