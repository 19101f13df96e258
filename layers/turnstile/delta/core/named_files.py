"""Checks of the files that a table's state names, by their entries in a listing. Pure.

Sources: Delta protocol, "Add File", "Derived Fields", "Deletion Vector Format".
"""

from __future__ import annotations

import base64
import re
import uuid
from collections.abc import Iterator
from typing import Final, Literal
from urllib.parse import unquote

import msgspec

from turnstile.delta.core.actions import Add, DeletionVector

FRAME_BYTES: Final = 8
"""Length and checksum around a deletion vector."""

RESTORE: Final = "bring it back from a backup or an object version; if its rows are lost, remove it from the table"

_ABSOLUTE: Final = re.compile(r"/|[A-Za-z][A-Za-z0-9+.\-]*:")
_Z85: Final = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_B85: Final = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
_TO_B85: Final = bytes.maketrans(_Z85, _B85)
VECTOR_ID_CHARACTERS: Final = 20
"""Of a uuid in base 85."""


class NamedFile(msgspec.Struct, frozen=True):
    """A file that a table names: its path, relative to the table's location or absolute, and its
    bytes; ``least``: others may be in the same file."""

    path: str
    size: int
    least: bool = False


class FileFault(msgspec.Struct, frozen=True):
    """The fault of a file that a table names, and the remedy."""

    path: str
    kind: Literal["missing", "size", "unreadable"]
    message: str
    remedy: str = RESTORE


def fault_of(file: NamedFile, size: int | None) -> FileFault | None:
    """Returns the fault of a file of ``size`` bytes in storage (None: it is missing); None for
    none."""
    if size is None:
        return FileFault(file.path, "missing", f"the table names it, with {file.size} bytes, and it is not there")
    if size < file.size:
        return FileFault(file.path, "size", f"it has {size} bytes, and the table says {file.size}")
    if size > file.size and not file.least:
        return FileFault(file.path, "size", f"it has {size} bytes, and the table says {file.size}")
    return None


def files_of(add: Add) -> Iterator[NamedFile]:
    """Yields the data file of an action, and the file of its deletion vector if it is none inside
    the log."""
    yield NamedFile(unquote(add.path), add.size)
    vector = add.deletionVector
    if vector is not None and (path := vector_file(vector)) is not None:
        yield NamedFile(path, (vector.offset or 0) + vector.sizeInBytes + FRAME_BYTES, least=True)


def is_absolute(path: str) -> bool:
    """Whether a path that a log names is one of its own."""
    return _ABSOLUTE.match(path) is not None


def vector_file(vector: DeletionVector) -> str | None:
    """Returns the path of a deletion vector's file, relative unless it is absolute; None for a
    vector inside the log."""
    text = vector.pathOrInlineDv
    if vector.storageType == "i":
        return None
    if vector.storageType == "p":
        return unquote(text)
    prefix = text[:-VECTOR_ID_CHARACTERS]
    id = text[-VECTOR_ID_CHARACTERS:]
    name = uuid.UUID(bytes=base64.b85decode(id.encode().translate(_TO_B85)))
    return "/".join(part for part in (prefix, f"deletion_vector_{name}.bin") if part)
