"""Request bodies of the catalog's operations. Unknown members are refused."""

from __future__ import annotations

from contextlib import AbstractContextManager

import msgspec
from msgspec import UNSET, UnsetType

from turnstile.catalog.core.merging import Merge
from turnstile.catalog.history.core import AsOf, checked, told_of


class NewCatalog(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``POST /v1/catalogs``."""

    name: str


class NewNamespace(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``POST .../namespaces``; ``name`` dotted."""

    name: str
    comment: str | None = None
    properties: dict[str, str] = {}


class NamespaceUpdate(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``PATCH .../namespaces/{ns}``; a null comment removes it."""

    comment: str | UnsetType | None = UNSET
    set: dict[str, str] = {}
    unset: list[str] = []
    merge: dict[str, Merge] = {}


class When(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A moment of a catalog: exactly one of a HEAD, a number of its log, a time (ms), or a snapshot's name."""

    head: str | None = None
    seq: int | None = None
    time: int | None = None
    snapshot: str | None = None

    def moment(self, field: str) -> AsOf:
        """The moment; ``field`` is the member that names it. Raises InvalidRequest."""
        return checked(AsOf(self.head, self.seq, self.time, self.snapshot), field)

    def told(self, field: str) -> AbstractContextManager[None]:
        """A moment that is not there is told of the member of ``field`` that names it: ``to.seq``."""
        (name,) = (name for name in self.__struct_fields__ if getattr(self, name) is not None)
        return told_of(f"{field}.{name}")


class NewSnapshot(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``POST .../snapshots``; ``of`` the present HEAD unless one is named."""

    name: str
    of: When | None = None
    comment: str | None = None


class Reset(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``POST .../reset``."""

    to: When


class Clone(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``POST .../clones``; ``from`` and ``to`` dotted, an empty ``from`` is the whole catalog; ``of`` now unless a moment
    is named."""

    source: str = msgspec.field(name="from")
    to: str
    of: When | None = None


class NewStagingTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``POST .../staging-tables``."""

    name: str


class NewTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``POST .../tables``: registers the staged table ``table_id``."""

    name: str
    table_id: str
    comment: str | None = None


class NewName(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``POST .../rename``; without ``namespace`` the table stays where it is."""

    name: str
    namespace: str | None = None


class NamespaceMove(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``POST .../namespaces/{ns}/rename``; without ``namespace`` it stays where it is, an empty one is the catalog's
    top."""

    name: str
    namespace: str | None = None


class Import(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``POST .../imports``; a dry run unless told otherwise."""

    name: str
    location: str
    dry_run: bool = True


class DryRun(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``POST .../export``; a dry run unless told otherwise."""

    dry_run: bool = True


class GrantChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One principal's part of a change of rights: privileges to add, then privileges to remove."""

    principal: str
    add: list[str] = []
    remove: list[str] = []


class RightsChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``PATCH /v1/permissions/...``; an empty ``owner`` leaves the securable to admins."""

    changes: list[GrantChange] = []
    owner: str | None = None


class NewRef(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``POST /v1/refs``."""

    name: str
    value: str
    request_id: str | None = None


class RefSwap(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``POST /v1/refs/{name}``; ``token`` of the value that is to be replaced."""

    token: str
    value: str
    request_id: str | None = None


class Collect(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``POST /v1/gc``; all kinds unless some are named, a dry run unless told otherwise."""

    dry_run: bool = True
    kinds: list[str] | None = None
