"""Compressed bodies: gzip and zstd, with a bound on what comes out."""

from __future__ import annotations

import gzip
import io
import zlib
from typing import Final

import pyarrow as pa

from turnstile.ingest.core.errors import InvalidRows, excerpt
from turnstile.store.core.errors import TooLarge

PLAIN_BYTES: Final = 16 * 1024 * 1024
"""Of a body after decompression."""

FEWER: Final = "send fewer rows in one request"
_WHOLE: Final = (
    "send what Content-Encoding says, whole; the gateway of AWS hands JSON and CSV on as text, so compress"
    " application/x-ndjson there"
)
_ENCODINGS: Final = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}
"""The first bytes of compressed bodies."""


def encoding_of(raw: bytes) -> str:
    """Returns the compression of a body, by its first bytes: gzip, zstd, or an empty text."""
    return next((name for first, name in _ENCODINGS.items() if raw.startswith(first)), "")


def plain_body(raw: bytes, encoding: str) -> bytes:
    """Returns the body after decompression; ``encoding`` as in the header ``Content-Encoding``.
    Raises InvalidRows for an unknown encoding or damaged bytes, TooLarge beyond ``PLAIN_BYTES``."""
    match encoding.strip().lower():
        case "" | "identity":
            plain = raw
        case "gzip" | "x-gzip":
            plain = _gunzip(raw)
        case "zstd":
            plain = _unzstd(raw)
        case _:
            raise InvalidRows(
                f"the encoding {excerpt(encoding)} is not known", field="Content-Encoding", remedy="use gzip or zstd"
            )
    if len(plain) > PLAIN_BYTES:
        text = f"the body is over the limit of {PLAIN_BYTES} bytes after decompression"
        raise TooLarge(text, field="body", remedy=FEWER, limit=PLAIN_BYTES)
    return plain


def _gunzip(raw: bytes) -> bytes:
    """All members of a gzip stream, up to a byte more than the limit."""
    try:
        return gzip.GzipFile(fileobj=io.BytesIO(raw)).read(PLAIN_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise _damage("gzip", error) from None


def _unzstd(raw: bytes) -> bytes:
    try:
        with pa.CompressedInputStream(pa.BufferReader(raw), "zstd") as stream:
            return bytes(stream.read(PLAIN_BYTES + 1))
    except (OSError, pa.ArrowException) as error:
        raise _damage("zstd", error) from None


def _damage(encoding: str, why: object) -> InvalidRows:
    text = f"the body is no {encoding}: {why}"
    return InvalidRows(text, field="body", remedy=_WHOLE)
