"""Log storage on S3 and on stores that enforce ``If-None-Match: *`` for PutObject. Every call is
idempotent, so it is simply repeated after a lost answer."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError, IncompleteReadError, ResponseStreamingError

from turnstile.adapters.files import check_path, check_prefix
from turnstile.store.core.errors import MissingBucket, StorageFault
from turnstile.store.ports import PIECE_BYTES, Stat, put_one_by_one
from turnstile.store.retry import Patience, Retries

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

T = TypeVar("T")

PATIENCE: Final = Patience(deadline_s=3.0, first_s=0.05, longest_s=1.0)
LONG_PATIENCE: Final = Patience(deadline_s=60.0, first_s=0.5, longest_s=5.0)
"""For the request that makes a file of many parts, which takes longer than an answer is waited
for."""
_TRANSIENT: Final = {"ConditionalRequestConflict", "OperationAborted", "RequestTimeout", "SlowDown", "Throttling"}
_LOST: Final = (HTTPClientError, IncompleteReadError, ResponseStreamingError)
_REMEDIES: Final = {
    "NoSuchBucket": "check the bucket's name: there is none of this name",
    "AccessDenied": "give the service the right to this bucket and prefix",
    "403": "give the service the right to this bucket and prefix",
    "InvalidAccessKeyId": "give the service a key that the store knows",
    "SignatureDoesNotMatch": "give the service the secret that belongs to its key",
    "PermanentRedirect": "give the service the region, or the endpoint, of the bucket",
}
_ABSENT: Final = ("NoSuchKey", "404", "NotFound")


def code_of(error: ClientError) -> str:
    """S3's error code; for HEAD requests, which have no body, the status."""
    return str(error.response.get("Error", {}).get("Code", ""))


def status_of(error: ClientError) -> int:
    """HTTP status of the response (0: none)."""
    return int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))


def _transient(error: Exception) -> bool:
    if isinstance(error, ClientError):
        return status_of(error) in (409, 429) or status_of(error) >= 500 or code_of(error) in _TRANSIENT
    return isinstance(error, _LOST)


def _remedy(error: Exception) -> str:
    """The remedy for an error that did not go away."""
    code = code_of(error) if isinstance(error, ClientError) else ""
    return _REMEDIES.get(
        code, "try again later" if _transient(error) else "look at the service's rights and settings of S3"
    )


def patiently(what: str, attempt: Callable[[], T], patience: Patience | None = None) -> T:
    """Returns the result of ``attempt()``, with retries within ``patience`` (``PATIENCE``). Raises
    StorageFault when time is up, or for an error that does not go away."""
    retries = Retries(patience or PATIENCE, now=time.monotonic, sleep=time.sleep, jitter=random.random)
    while True:
        try:
            return attempt()
        except (BotoCoreError, ClientError) as error:
            if not _transient(error) or not retries.pause():
                is_missing = isinstance(error, ClientError) and code_of(error) == "NoSuchBucket"
                raise (MissingBucket if is_missing else StorageFault)(
                    f"could not {what}: {error}", remedy=_remedy(error)
                ) from error


class S3Storage:
    """``turnstile.store.ports.LogStorage`` below ``prefix`` (without slashes at either end) of a
    bucket. The client has no retries of its own; a listing asks for ``page`` files at once, at most
    1000.
    """

    def __init__(self, client: S3Client, bucket: str, prefix: str, *, page: int = 1000) -> None:
        self._client = client
        self._bucket = bucket
        self._page = page
        self._root = f"{prefix}/" if prefix else ""

    def read(self, path: str, limit: int | None = None, offset: int = 0) -> tuple[bytes, Stat] | None:
        key = self._key(path)
        last = "" if limit is None else str(offset + max(limit, 1) - 1)
        ranged: dict[str, Any] = {"Range": f"bytes={offset}-{last}"} if offset or last else {}

        def attempt() -> tuple[bytes, Stat] | None:
            try:
                response = self._client.get_object(Bucket=self._bucket, Key=key, **ranged)
            except ClientError as error:
                if code_of(error) in _ABSENT:
                    return None
                if ranged and code_of(error) == "InvalidRange":  # there is no byte at the offset, as in any empty file
                    stat = self._stat(path)
                    return None if stat is None else (b"", stat)
                raise
            total = response.get("ContentRange", "").rpartition("/")[2]  # "bytes 0-9/1234"
            size = int(total) if total else response["ContentLength"]
            return response["Body"].read()[:limit], Stat(path, size, _ms(response["LastModified"]))

        return patiently(f"read {path}", attempt)

    def stat(self, path: str) -> Stat | None:
        self._key(path)
        return patiently(f"look at {path}", lambda: self._stat(path))

    def put_if_absent(self, path: str, content: bytes | Iterable[bytes]) -> bool:
        key = self._key(path)
        return (
            self._put(path, key, content) if isinstance(content, bytes) else self._put_parts(path, key, _parts(content))
        )

    def _put(self, path: str, key: str, content: bytes) -> bool:
        def attempt() -> bool:
            try:
                self._client.put_object(Bucket=self._bucket, Key=key, Body=content, IfNoneMatch="*")
            except ClientError as error:
                if status_of(error) == 412:
                    return False
                raise
            return True

        return patiently(f"write {path}", attempt)

    def _put_parts(self, path: str, key: str, parts: Iterator[bytes]) -> bool:
        """Uploads ``parts`` one after the other and makes the file of them in one step: until then
        there is none."""
        part = next(parts, b"")
        if len(part) < PIECE_BYTES:  # it is the only one
            return self._put(path, key, part)
        at: dict[str, Any] = {"Bucket": self._bucket, "Key": key}
        at["UploadId"] = patiently(f"write {path}", lambda: self._client.create_multipart_upload(**at))["UploadId"]
        try:
            done: list[dict[str, Any]] = []
            while part:
                upload = partial(self._client.upload_part, **at, PartNumber=len(done) + 1, Body=part)
                done.append({"PartNumber": len(done) + 1, "ETag": patiently(f"write {path}", upload)["ETag"]})
                del upload, part  # so that no more than the next part is held while that is read
                part = next(parts, b"")
            created = self._complete(path, at, done)
        except BaseException:
            self._abort(at)
            raise
        if not created:
            self._abort(at)
        return created

    def _abort(self, at: dict[str, Any]) -> None:
        with suppress(BotoCoreError, ClientError):  # what is left of it, the bucket's lifecycle removes
            self._client.abort_multipart_upload(**at)

    def _complete(self, path: str, at: dict[str, Any], parts: list[Any]) -> bool:
        repeated = False

        def attempt() -> bool:
            nonlocal repeated
            again = repeated
            repeated = True
            try:
                self._client.complete_multipart_upload(**at, MultipartUpload={"Parts": parts}, IfNoneMatch="*")
            except ClientError as error:
                if status_of(error) == 412:
                    return False
                if status_of(error) == 409:  # this upload is over: S3 asks for another one
                    raise StorageFault(f"could not write {path}: {error}", remedy="try again later") from error
                if again and code_of(error) == "NoSuchUpload" and self._stat(path) is not None:
                    return False  # an attempt whose answer was lost made the file
                raise
            return True

        return patiently(f"write {path}", attempt, LONG_PATIENCE)

    def replace(self, path: str, content: bytes) -> None:
        key = self._key(path)
        patiently(f"write {path}", lambda: self._client.put_object(Bucket=self._bucket, Key=key, Body=content))

    def put_in_order(self, files: Sequence[tuple[str, bytes]]) -> int:
        return put_one_by_one(self, files)

    def list(self, prefix: str, after: str = "") -> Iterator[Stat]:
        yield from self._list(check_prefix(prefix), after=after, Delimiter="/")

    def list_all(self) -> Iterator[Stat]:
        yield from self._list("")

    def left_overs(self, before_ms: int) -> Iterator[Stat]:
        yield from ()  # an object appears whole, and under its name alone

    def delete(self, path: str) -> None:
        key = self._key(path)
        patiently(f"delete {path}", lambda: self._client.delete_object(Bucket=self._bucket, Key=key))

    def _stat(self, path: str) -> Stat | None:
        try:
            response = self._client.head_object(Bucket=self._bucket, Key=self._key(path))
        except ClientError as error:
            if code_of(error) in _ABSENT:
                return None
            raise
        return Stat(path, response["ContentLength"], _ms(response["LastModified"]))

    def _list(self, prefix: str, *, after: str = "", **more: Any) -> Iterator[Stat]:
        request = {"Bucket": self._bucket, "Prefix": self._root + prefix, "MaxKeys": self._page, **more}
        if after:
            request["StartAfter"] = self._root + after
        while True:
            page = patiently(f"list {prefix}", lambda: self._client.list_objects_v2(**request))
            for file in page.get("Contents", ()):
                path = file["Key"][len(self._root) :]
                if path and not path.endswith("/"):  # consoles make such empty objects to show folders
                    yield Stat(path, file["Size"], _ms(file["LastModified"]))
            if not page.get("IsTruncated"):
                return
            if not page.get("NextContinuationToken"):
                raise StorageFault(f"the listing of {prefix} was cut off")
            request["ContinuationToken"] = page["NextContinuationToken"]

    def _key(self, path: str) -> str:
        return self._root + check_path(path)


def _parts(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yields ``pieces`` joined so that each part but the last has ``PIECE_BYTES`` or more: S3 takes
    none below 5 MiB."""
    held = b""
    for piece in pieces:
        held = held + piece if held else piece
        if len(held) >= PIECE_BYTES:
            yield held
            held = b""
    if held:
        yield held


def _ms(time: datetime) -> int:
    """Whole seconds, also of a listing: GET and HEAD answer with an HTTP date, and a file's time
    must be the same from every operation."""
    return int(time.timestamp()) * 1000
