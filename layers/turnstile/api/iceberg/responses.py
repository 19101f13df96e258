"""Bodies of answers, as the specification has them."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from typing import Any, Final
from urllib.parse import quote

import msgspec

from turnstile.api.iceberg.naming import SEPARATOR
from turnstile.catalog.namespaces import NamedNamespace
from turnstile.iceberg.core import metadata
from turnstile.iceberg.core import views as view_metadata
from turnstile.iceberg.listing import Names
from turnstile.iceberg.tables import LoadedTable
from turnstile.iceberg.views import LoadedView
from turnstile.store.core.errors import TooLarge
from turnstile.store.page_budget import PAGE_BYTES, response_size
from turnstile.store.ports import Vended

SESSION: Final = "s3.session-token"
SESSION_END: Final = "s3.session-token-expires-at-ms"
REFRESH_ENDPOINT: Final = "client.refresh-credentials-endpoint"
"""Properties of Java's ``S3FileIOProperties`` and ``AwsClientProperties``, version 1.11."""

COMMENT: Final = "comment"
"""The property under which Iceberg's engines look for a namespace's comment."""

KEY_LIFETIME: Final = "PT30M"
"""How long an idempotency key may be used; it is remembered for longer (``core.request_rows``)."""

_N: Final = "/v1/{prefix}/namespaces"
_T: Final = _N + "/{namespace}/tables"
_V: Final = _N + "/{namespace}/views"

ENDPOINTS: Final = (
    f"GET {_N}",
    f"POST {_N}",
    f"GET {_N}/{{namespace}}",
    f"HEAD {_N}/{{namespace}}",
    f"DELETE {_N}/{{namespace}}",
    f"POST {_N}/{{namespace}}/properties",
    f"GET {_T}",
    f"POST {_T}",
    f"GET {_T}/{{table}}",
    f"HEAD {_T}/{{table}}",
    f"POST {_T}/{{table}}",
    f"DELETE {_T}/{{table}}",
    f"POST {_T}/{{table}}/unregister",
    f"GET {_T}/{{table}}/credentials",
    f"POST {_T}/{{table}}/metrics",
    f"POST {_N}/{{namespace}}/register",
    "POST /v1/{prefix}/tables/rename",
    "POST /v1/{prefix}/transactions/commit",
    f"GET {_V}",
    f"POST {_V}",
    f"GET {_V}/{{view}}",
    f"HEAD {_V}/{{view}}",
    f"POST {_V}/{{view}}",
    f"DELETE {_V}/{{view}}",
    "POST /v1/{prefix}/views/rename",
)
"""What is served, in the specification's words. Clients do not try anything else."""


READING: Final = tuple(one for one in ENDPOINTS if not one.startswith(("POST", "DELETE")) or one.endswith("/metrics"))
"""What is served of a catalog's past."""


def config(prefix: str, endpoints: Sequence[str] = ENDPOINTS) -> dict[str, Any]:
    """The configuration of a client of the catalog, or of the moment of it, that ``prefix`` names."""
    return {
        "defaults": {},
        "overrides": {"prefix": prefix},
        "endpoints": list(endpoints),
        "idempotency-key-lifetime": KEY_LIFETIME,
    }


def namespace(found: NamedNamespace) -> dict[str, Any]:
    """A namespace and its properties, its comment among them."""
    return {"namespace": list(found.name), "properties": properties(found)}


def properties(found: NamedNamespace) -> dict[str, str]:
    """Properties of a namespace as Iceberg's clients see them."""
    comment = found.entity.comment
    return {**found.entity.properties, **({} if comment is None else {COMMENT: comment})}


def namespaces(found: Names) -> dict[str, Any]:
    """A page of namespaces."""
    return {"namespaces": [[*found.namespace, name] for name in found.names], "next-page-token": found.next_token}


def identifiers(found: Names) -> dict[str, Any]:
    """A page of tables or views."""
    names = [{"namespace": list(found.namespace), "name": name} for name in found.names]
    return {"identifiers": names, "next-page-token": found.next_token}


class Credentials(msgspec.Struct, frozen=True):
    """Keys for a table's files.

    Attributes:
        vended: one for each location; none where clients need none, or bring their own.
        renewal: the path below the catalog's address where others are to be had; empty when there is none.
    """

    vended: tuple[Vended, ...] = ()
    renewal: str = ""


def table(found: LoadedTable, keys: Credentials | None = None, *, refs_only: bool = False) -> dict[str, Any]:
    """A table with its metadata; ``keys`` for its files.

    Keys of one location are in ``config`` as well, where clients look that know no ``storage-credentials``.
    """
    shown = found.metadata.referenced() if refs_only else found.metadata
    body: dict[str, Any] = {"metadata": metadata.document(shown), "config": {}}
    if found.entity is not None:
        body = {"metadata-location": found.entity.metadata, **body}
    if keys is not None:
        body |= credentials(keys)
        if len(keys.vended) == 1:
            body["config"] = body["storage-credentials"][0]["config"]
    return body


def committed(found: LoadedTable) -> dict[str, Any]:
    """A table after a commit."""
    assert found.entity is not None
    return {"metadata-location": found.entity.metadata, "metadata": metadata.document(found.metadata)}


def view(found: LoadedView) -> dict[str, Any]:
    """A view with its metadata."""
    body = view_metadata.document(found.metadata)
    return {"metadata-location": found.entity.metadata, "metadata": body, "config": {}}


def credentials(keys: Credentials) -> dict[str, Any]:
    """Keys for files."""
    return {"storage-credentials": [{"prefix": one.prefix, "config": _config(one, keys)} for one in keys.vended]}


def _config(one: Vended, keys: Credentials) -> dict[str, str]:
    """What a client sets to use the keys: when they end, and where to fetch others.

    Java's ``VendedCredentialsProvider`` wants both, only with session tokens, and only where a single key is given out:
    it takes no other answer when it asks again.
    """
    config = dict(one.config)
    if SESSION not in config:
        return config
    config[SESSION_END] = str(one.expires)
    return {**config, REFRESH_ENDPOINT: keys.renewal} if keys.renewal and len(keys.vended) == 1 else config


def credentials_path(prefix: str, namespace: Sequence[str], table: str) -> str:
    """Where to fetch keys for a table, relative to the address of the catalog."""
    parts = quote(SEPARATOR.join(namespace), safe=""), quote(table, safe="")
    return f"v1/{quote(prefix, safe='@:')}/namespaces/{parts[0]}/tables/{parts[1]}/credentials"


def etag(metadata_location: str, *, refs_only: bool = False) -> str:
    """The tag of an answer: of the metadata file, and of how much of it the answer holds."""
    shown = f"{metadata_location}#{'refs' if refs_only else 'all'}"
    return f'"{hashlib.sha256(shown.encode()).hexdigest()[:32]}"'


def matches(if_none_match: str, tag: str) -> bool:
    """Whether a request's If-None-Match names ``tag`` (RFC 9110: weak comparison, a list, or ``*``)."""
    given = [one.strip().removeprefix("W/") for one in if_none_match.split(",")]
    return "*" in given or tag in given


def check_names(names: Sequence[str]) -> None:
    """Whether an answer has room for what became of these properties, before anything does; raises TooLarge."""
    size = response_size(names)
    if size > PAGE_BYTES:
        raise TooLarge(
            f"the names of the properties would take {size} bytes of the answer, and the limit is {PAGE}",
            field="removals",
            remedy="name fewer of them in one request",
            limit=PAGE_BYTES,
            size=size,
        )


def changed_properties(before: Collection[str], updated: Sequence[str], removed: Sequence[str]) -> dict[str, Any]:
    """What became of the properties a request names; ``before`` are the names that were there."""
    return {
        "updated": sorted(updated),
        "removed": sorted(name for name in removed if name in before),
        "missing": sorted(name for name in removed if name not in before),
    }
