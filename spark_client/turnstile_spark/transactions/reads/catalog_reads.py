"""A serializable transaction's reads of the catalog: names, lists and path queries, as the server
checks them when it commits.

A read is a path query with its answer: the ids, or the HEAD of the catalog that answered it. The
transaction is refused if the query has another answer by then, and not for any other change of the
catalog (TreeCat, "precision locking"; the server's side is ``catalog/query/reads.py``). All lists
of a transaction are answered by one HEAD, which the first of them takes.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from typing import Any

from turnstile_http.api import Api

#: Characters of the names in one query; a query may have 4,000 in all.
_NAMES_MAX = 3_000


class CatalogReadLog:
    """The reads of one transaction. Thread-safe. Lists and queries go through it, and raise
    :class:`turnstile_http.errors.ApiError` as those of :class:`turnstile_http.api.Api`."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._names: dict[tuple[str, str], str] = {}
        self._queries: dict[str, None] = {}
        self._head = ""
        self._lock = threading.Lock()

    @property
    def has_answers(self) -> bool:
        """Whether there was a read that only the catalog can check: a list, a query, or a missing
        table. For tables that were found, their versions are checked."""
        with self._lock:
            return bool(self._queries) or "" in self._names.values()

    def name(self, namespace: str, table: str, table_id: str) -> None:
        """Records the table of a name (empty: none). The first answer counts."""
        with self._lock:
            self._names.setdefault((namespace.casefold(), table.casefold()), table_id)

    def tables(self, namespace: str) -> list[str]:
        """The names of the tables in a namespace."""
        return self._api.tables(namespace, self._note_query(f'{self._path(namespace)}/*[kind != "namespace"]'))

    def namespaces(self, above: list[str]) -> list[str]:
        """The names of all namespaces, levels joined by dots; with ``above`` its direct
        children."""
        return self._api.namespaces(self._note_query(f'{self._path(".".join(above))}/*[kind = "namespace"]'))

    def namespace(self, name: str) -> dict[str, Any]:
        """One namespace."""
        return self._api.namespace(name, self._note_query(f'{self._path(name)}[kind = "namespace"]'))

    def find(self, query: str) -> list[dict[str, Any]]:
        """The matches of a path query."""
        return list(self._api.find(query, self._note_query(query)))

    def bodies(self) -> list[dict[str, Any]]:
        """The reads as members of the request."""
        with self._lock:
            lists = [{"query": query, "head": self._head} for query in self._queries]
            spaces: dict[str, list[tuple[str, str]]] = {}
            for (namespace, table), table_id in sorted(self._names.items()):
                spaces.setdefault(namespace, []).append((table, table_id))
        return [*lists, *(read for space, names in spaces.items() for read in self._of_names(space, names))]

    def _of_names(self, namespace: str, names: Iterable[tuple[str, str]]) -> Iterator[dict[str, Any]]:
        """The names of one namespace as few queries."""
        for part in _parts(names):
            quoted = ", ".join(f'"{table}"' for table, _ in part)
            query = f'{self._path(namespace)}/*[kind = "table" and name in ({quoted})]'
            yield {"query": query, "ids": [table_id for _, table_id in part if table_id]}

    def _path(self, namespace: str) -> str:
        """A namespace (empty: the catalog itself) in a query."""
        return "".join(f"/{level}" for level in (self._api.catalog, *namespace.split(".")) if level)

    def _note_query(self, query: str) -> str:
        """Takes note of a query, and returns the HEAD that is to answer it."""
        with self._lock:
            if not self._head:
                self._head = self._api.catalog_head()
            self._queries.setdefault(query)
            return f"head:{self._head}"


def _parts(names: Iterable[tuple[str, str]]) -> Iterator[list[tuple[str, str]]]:
    """Names with ids, in lists that fit a query."""
    part: list[tuple[str, str]] = []
    size = 0
    for name in names:
        if part and size + len(name[0]) + 4 > _NAMES_MAX:
            yield part
            part = []
            size = 0
        part.append(name)
        size += len(name[0]) + 4
    if part:
        yield part
