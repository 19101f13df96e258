"""Which storage serves a table's location."""

from __future__ import annotations

import re
from typing import Final

from turnstile.adapters.storage_file import FileStorage
from turnstile.store.core.errors import InvalidRequest
from turnstile.store.ports import LogStorage

_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(.*)", re.DOTALL)
_S3_SCHEMES: Final = ("s3", "s3a", "s3n")


class FileStorages:
    """``turnstile.store.ports.Storages`` by scheme: ``file:`` in all slash forms, ``s3:`` (``s3a:`` is the same).

    Paths are taken as they are: percent signs are not decoded, as Hadoop's ``Path`` does not.

    Args:
        endpoint_url: of the S3 service; None is AWS, or what AWS_ENDPOINT_URL says.
    """

    def __init__(self, endpoint_url: str | None = None) -> None:
        self._endpoint_url = endpoint_url

    def open(self, location: str) -> LogStorage:
        """Storage below ``location``.

        Raises:
            InvalidRequest: a scheme that is not served, or a location that is not absolute.
        """
        match = _SCHEME.fullmatch(location)
        scheme, rest = (match[1].lower(), match[2]) if match else ("", location)
        if scheme == "file":
            return FileStorage(_local_path(location, rest))
        if scheme in _S3_SCHEMES:
            from turnstile.adapters.clients import s3
            from turnstile.adapters.storage_s3 import S3Storage

            bucket, prefix = _bucket_and_prefix(location, rest)
            return S3Storage(s3(self._endpoint_url), bucket, prefix)
        raise InvalidRequest(
            f"storage of {location!r} is not served", field="location", remedy="use s3://bucket/prefix or file:///path"
        )


def _local_path(location: str, rest: str) -> str:
    if rest.startswith("//"):
        host, _, path = rest[2:].partition("/")
        if host not in ("", "localhost"):
            raise InvalidRequest(f"{location!r} names another host", field="location", remedy="use file:///path")
        rest = "/" + path
    path = "/" + rest.strip("/")
    if not rest.startswith("/") or path == "/" or any(segment in (".", "..") for segment in path.split("/")):
        raise InvalidRequest(f"{location!r} is not an absolute path", field="location", remedy="use file:///path")
    return path


def _bucket_and_prefix(location: str, rest: str) -> tuple[str, str]:
    bucket, _, prefix = rest.removeprefix("//").partition("/")
    prefix = prefix.strip("/")
    if not rest.startswith("//") or not bucket or any(segment in (".", "..") for segment in prefix.split("/")):
        raise InvalidRequest(f"{location!r} is not s3://bucket/prefix", field="location")
    return bucket, prefix
