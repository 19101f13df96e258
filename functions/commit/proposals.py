"""The body of a commit request."""

from __future__ import annotations

from typing import Annotated

import msgspec

from turnstile.delta.proposals import CommitRequest
from turnstile.store.core.errors import InvalidRequest


class Staged(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file that the client has written; ``modified`` in ms, 0 for the in-commit timestamp."""

    name: str
    size: int
    modified: int = 0


class Inline(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Content in the request; ``name`` is the staged name it will have, empty for the derived one."""

    content: str
    name: str = ""


class Proposed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``{"version", "base"?, "staged" | "inline", "etag"?}``; a null version asks for the next one."""

    version: int | None
    base: int | None = None
    staged: Staged | None = None
    inline: Inline | None = None
    etag: Annotated[str, msgspec.Meta(max_length=512)] | None = None


def to_request(table_id: str, proposed: Proposed) -> CommitRequest:
    """The proposal for the ratifier, which judges ranges and names.

    Raises:
        InvalidRequest: not exactly one of ``staged`` and ``inline``.
    """
    staged, inline = proposed.staged, proposed.inline
    if (staged is None) == (inline is None):
        raise InvalidRequest("give either staged or inline", field="staged", remedy="exactly one of the two")
    if staged is not None and not staged.name:
        raise InvalidRequest(
            "staged.name is empty", field="staged.name", remedy="<20 digits of the version>.<uuid>.json"
        )
    return CommitRequest(
        table_id=table_id,
        version=proposed.version,
        base=proposed.base,
        staged=staged.name if staged else "",
        size=staged.size if staged else 0,
        modified=staged.modified if staged else 0,
        content=inline.content.encode() if inline else None,
        inline_name=inline.name if inline else "",
        etag=proposed.etag,
    )
