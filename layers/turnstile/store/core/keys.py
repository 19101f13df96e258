"""Keys of the two tables: how every row is addressed."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from turnstile.store.core.obj_types import IDENTITY, INLINE, METADATA


@dataclass(frozen=True, slots=True)
class Space:
    """A tenant's key space: every key carries the realm, every obj key realm and catalog (Polaris, "Multi-tenancy")."""

    realm: str

    def table(self, table_id: str) -> str:
        """refs key of a Delta table's HEAD."""
        return f"{self.realm}/table/{table_id}"

    def catalog(self, name: str) -> str:
        """refs key of a catalog's HEAD."""
        return f"{self.realm}/catalog/{name.lower()}"

    def gone(self, name: str) -> str:
        """refs key of a dropped catalog whose objs are still there."""
        return f"{self.realm}/gone/{name.lower()}"

    def staging(self, table_id: str) -> str:
        """refs key of a staging table."""
        return f"{self.realm}/staging/{table_id}"

    def location(self, location: str) -> str:
        """refs key of the owner of a normalised storage location."""
        return f"{self.realm}/location/{location}"

    def external(self, table_id: str) -> str:
        """refs key of an external table's location, by uuid."""
        return f"{self.realm}/external/{table_id}"

    def request(self, catalog: str, principal: str, idempotency_key: str) -> str:
        """refs key of a request with an idempotency key."""
        digest = hashlib.sha256(f"{len(principal)}/{principal}/{idempotency_key}".encode()).hexdigest()[:40]
        return f"{self.realm}/request/{catalog.lower()}/{digest}"

    def client(self, client_id: str) -> str:
        """refs key of a registered client."""
        return f"{self.realm}/client/{client_id}"

    def ref(self, name: str) -> str:
        """refs key of another system's reference; its kind keeps it apart from all other keys."""
        return f"{self.realm}/ref/{name}"

    def lease(self, name: str) -> str:
        """refs key of a lease."""
        return f"{self.realm}/lease/{name}"

    def updateable(self, name: str) -> str:
        """refs key of an updateable object, ``<type>/<id>``."""
        return f"{self.realm}/updateable/{name}"

    def objs(self, catalog: str) -> str:
        """objs partition of a catalog."""
        return f"{self.realm}/{catalog.lower()}"


def identity_obj(table_id: str, identity: str) -> str:
    """objs id of an identity-index entry: (table, txn id or staged name) -> version."""
    return IDENTITY.id(f"{table_id}/{hashlib.sha256(identity.encode()).hexdigest()[:40]}")


def inline_obj(table_id: str, now_ms: int, payload: bytes) -> str:
    """objs id of inline content: addressed by its bytes, so that writing it twice is harmless, and by the day.

    gc removes old objs that no HEAD refers to. Without the day, a proposal that is sent again much later would find its old
    obj, write nothing, and be ratified while gc removes it (I10).
    """
    return INLINE.id(f"{table_id}/{now_ms // 86_400_000:06d}.{hashlib.sha256(payload).hexdigest()[:40]}")


def metadata_obj(table_id: str, version: int, payload: bytes) -> str:
    """objs id of table metadata: in order of the version that made it, unique by content. It is the etag."""
    return METADATA.id(f"{table_id}/{version:020d}.{hashlib.sha256(payload).hexdigest()[:24]}")


def app_key(app_id: str) -> str:
    """Bounded key of a streaming ``txn.appId`` in a HEAD's ``apps``."""
    return hashlib.sha256(app_id.encode()).hexdigest()[:16]
