"""Rename: the catalog's HEAD and the name in the table's HEAD, in one transaction (I9).

Uuid, location and commits stay what they are. A cached mapping of the old name dies with the catalog HEAD it came from.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from turnstile.catalog.change import Edit, View
from turnstile.catalog.committer import Committer
from turnstile.catalog.core.entities import Table
from turnstile.catalog.core.paths import Path, dotted, key_of
from turnstile.catalog.core.table_heads import rename_head
from turnstile.catalog.heads import not_active
from turnstile.catalog.namespaces import check_path, require_free
from turnstile.catalog.reader import CatalogReader
from turnstile.store.core.errors import UnsupportedTable
from turnstile.store.core.names import check_identifier
from turnstile.store.core.writes import Row
from turnstile.store.world import World


class Renamer:
    """Renames tables, also into another namespace of the same catalog."""

    def __init__(self, world: World, reader: CatalogReader, committer: Committer) -> None:
        self._world, self._reader, self._committer = world, reader, committer

    def rename(
        self,
        catalog: str,
        namespace: Path,
        name: str,
        new_name: str,
        new_namespace: Path | None = None,
        *,
        external: bool = True,
    ) -> Path:
        """Give the table ``name`` another name and return it in full. Three requests when warm.

        Args:
            external: whether a table that is registered only may be renamed, too.

        Raises:
            InvalidRequest: not a name.
            NotFound: no such catalog, table, or namespace to move to.
            AlreadyExists: the new name is taken (a change of case only is allowed).
            StateConflict: ``TableNotActive``: leaving, stuck, recovering.
            UnsupportedTable: the table is registered only and ``external`` is not set.
        """
        target = check_path(namespace if new_namespace is None else new_namespace)
        check_identifier(new_name, "name")
        source, wanted = (*namespace, name), (*target, new_name)
        same = key_of(source) == key_of(wanted)

        def change(view: View) -> Edit | None:
            entry = view.tree.table(namespace, name)
            old = view.entity(entry.obj)
            assert isinstance(old, Table)
            if old.external is not None and not external:
                raise UnsupportedTable(
                    f"table '{name}' is external: its commits are not coordinated here",
                    field="table",
                    remedy="rename it through Unity Catalog's API, where it was registered",
                )
            if same and old.name == new_name:
                return None
            view.tree.parent(target)
            if not same:
                require_free(view, wanted, "name")
            full = dotted(view.tree.catalog, *view.written(target), new_name)
            return Edit(
                f"rename table {dotted(*source)} to {dotted(*wanted)}",
                put={wanted: msgspec.structs.replace(old, name=new_name)},
                remove=() if same else (source,),
                writes=()
                if old.external is not None
                else (rename_head(self._world.space.table(entry.table_id), full, self._world.clock.now_ms()),),
            )

        def judge(failed: Mapping[int, Row | None]) -> None:
            if 0 in failed:
                raise not_active(dotted(catalog, *source), failed[0])

        tree = self._committer.commit(catalog, change, judge=judge)
        return (*View(tree, self._reader.store).written(target), new_name)
