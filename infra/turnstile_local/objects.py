"""Objects of a running stack's emulated S3."""

from __future__ import annotations

from typing import TYPE_CHECKING

from turnstile_local.errors import StackError
from turnstile_local.stack import Stack

if TYPE_CHECKING:
    from pathlib import Path


def first_bytes(home: Path, bucket: str, key: str, count: int) -> bytes | None:
    """The first ``count`` bytes of an object, None if the stack of ``home`` does not run or has no such object."""
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        answer = Stack.attach(home).aws("s3").get_object(Bucket=bucket, Key=key, Range=f"bytes=0-{count - 1}")
        return bytes(answer["Body"].read())
    except (StackError, BotoCoreError, ClientError):
        return None
