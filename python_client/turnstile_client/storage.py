"""The folder of a table, in files or on S3, with the server's credentials for it where it vends
any."""

from __future__ import annotations

import os
import posixpath
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from pyarrow import fs

from turnstile_client.errors import Unsupported
from turnstile_client.failures import failures_at

#: Seconds before their end at which credentials are asked for anew: as long as one file may take to
#: write or read.
_AHEAD: Final = 300.0
_OPTIONS: Final = ("endpoint", "region", "access_key", "secret_key", "session_token")


@dataclass(frozen=True)
class Vended:
    """Credentials from the server, which end at ``expires`` (seconds since the epoch; None: not
    told)."""

    access_key: str
    secret_key: str
    session_token: str | None
    expires: float | None


def checked_options(s3: Mapping[str, str] | None) -> dict[str, str]:
    """A caller's settings of S3, without empty members. Raises :class:`ValueError`, naming unknown
    members."""
    unknown = sorted(set(s3 or ()) - set(_OPTIONS))
    if unknown:
        raise ValueError(f"s3 has the members {', '.join(_OPTIONS)}, and not {', '.join(unknown)}")
    given = {name: value for name, value in (s3 or {}).items() if value}
    if ("access_key" in given) != ("secret_key" in given):
        raise ValueError("s3: give access_key and secret_key, or neither")
    return given


class Storage:
    """Files below ``location``. ``vend``: asks the server for credentials, None where it vends
    none; it is asked only for a table on S3 and a caller without keys of its own. Raises
    :class:`Unsupported` for a location that is neither.
    """

    def __init__(self, location: str, s3: Mapping[str, str], vend: Callable[[], Vended | None]) -> None:
        parts = urlsplit(location)
        if parts.scheme not in ("file", "s3", "s3a"):
            raise Unsupported(f"the table lies at {location!r}: this client knows files and S3")
        self.location = location
        self.is_s3 = parts.scheme != "file"
        self._bucket = parts.netloc
        self.root = (f"{parts.netloc}{unquote(parts.path)}" if self.is_s3 else unquote(parts.path)).rstrip("/")
        self._s3 = s3
        self._vend = vend
        self._system: fs.FileSystem | None = None
        self._until: float | None = None

    def system(self) -> fs.FileSystem:
        """The file system, with credentials that are good for some minutes at least."""
        if self._system is None or (self._until is not None and time.time() > self._until - _AHEAD):
            with failures_at(self.location):
                self._system = self._connect() if self.is_s3 else fs.LocalFileSystem()
        return self._system

    def _connect(self) -> fs.FileSystem:
        options: dict[str, Any] = {"allow_delayed_open": True}  # a small file is one PUT, and not an upload in parts
        endpoint = (
            self._s3.get("endpoint") or os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
        )
        region = self._s3.get("region") or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
        if endpoint:
            parts = urlsplit(endpoint if "//" in endpoint else f"https://{endpoint}")
            options |= {"endpoint_override": parts.netloc, "scheme": parts.scheme}
        if region or endpoint:
            options["region"] = region or "us-east-1"
        else:
            options["region"] = fs.resolve_s3_region(self._bucket)
        if "access_key" in self._s3:
            keys = (self._s3["access_key"], self._s3["secret_key"], self._s3.get("session_token"))
            return fs.S3FileSystem(access_key=keys[0], secret_key=keys[1], session_token=keys[2], **options)
        vended = self._vend()
        if vended is None:
            return fs.S3FileSystem(**options)
        self._until = vended.expires
        keys = (vended.access_key, vended.secret_key, vended.session_token)
        return fs.S3FileSystem(access_key=keys[0], secret_key=keys[1], session_token=keys[2], **options)

    def path(self, name: str) -> str:
        """Where the file system has a file of the table, by its path relative to the table. A table
        of a branch names files of the catalog's table by ``../..``, which object stores do not
        know."""
        path = f"{self.root}/{name}"
        return posixpath.normpath(path) if ".." in name else path

    def path_of_uri(self, text: str) -> str:
        """Where the file system has a file, by a path of the log: percent-encoded, relative to the
        table or absolute. Raises :class:`Unsupported` for a file in other storage than the table's.
        """
        parts = urlsplit(text)
        if not parts.scheme:
            return self.path(unquote(text))
        if self.is_s3 and parts.scheme in ("s3", "s3a", "s3n"):
            return f"{parts.netloc}{unquote(parts.path)}"
        if not self.is_s3 and parts.scheme == "file":
            return unquote(parts.path)
        raise Unsupported(f"the table has the file {text[:300]!r}, which lies in other storage than the table")

    def write(self, name: str, content: bytes) -> None:
        """Writes a file under a unique name. Raises
        :class:`turnstile_client.errors.StorageFailure`."""
        path = self.path(name)
        system = self.system()
        with failures_at(self.location):
            if not self.is_s3:
                system.create_dir(path.rpartition("/")[0], recursive=True)
            with system.open_output_stream(path) as stream:
                stream.write(content)

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        """The bytes of a file by its path in the file system. Raises
        :class:`turnstile_client.errors.StorageFailure`."""
        system = self.system()
        with failures_at(self.location), system.open_input_file(path) as file:
            file.seek(offset)
            return bytes(file.read(length))

    def read_commit(self, version: int, staged: str | None = None) -> str:
        """The content of a published commit, or of its staged file. Raises as :meth:`read`."""
        name = f"{version:020d}.json" if staged is None else f"_staged_commits/{staged}"
        return self.read(self.path(f"_delta_log/{name}")).decode()

    def remove(self, name: str) -> None:
        """Removes a file; none there is no error. Raises :class:`OSError`."""
        with suppress(FileNotFoundError):
            self.system().delete_file(self.path(name))
