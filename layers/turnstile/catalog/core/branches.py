"""Branches of a catalog: ``main@dev``. Pure (ADR 85).

A branch is a row of its own over the objs of its catalog. Its first commit has the index of the
commit that it was made from, so creating it costs the same for any number of tables. Entities of
the catalog are shared by their obj ids; an entity that a change of the branch puts has an id that
ends with ``OWN``. So the index alone says which Delta tables of a branch are still the catalog's:
their HEADs show and take commits of the catalog, so a request for one of them is answered only
after it has a HEAD and a log of its own (``branches.tables``).
"""

from __future__ import annotations

import uuid
from typing import Final, Protocol

import msgspec

from turnstile.catalog.core.entities import TABLE, BranchOrigin, Table
from turnstile.catalog.core.index import IndexEntry
from turnstile.catalog.core.paths import Path, dotted_name
from turnstile.catalog.core.tree import Tree
from turnstile.delta.core.head import TableHead
from turnstile.store.core.errors import InvalidRequest, UnsupportedTable
from turnstile.store.core.locations import branch_location, split_location
from turnstile.store.core.names import BRANCH_SIGN, NAME_BYTES_MAX, branched_catalog, is_branch, is_identifier
from turnstile.store.core.rows import ENTITY_PREFIX

OWN: Final = BRANCH_SIGN
"""The end of the obj id of an entity that a change of a branch put."""

NOT_KNOWN: Final = -1
"""The version in the origin of a table that has no log of its own yet."""

_NO_TABLE: Final = uuid.UUID("9d1d4c52-6a3b-5c0e-8a51-3f1f1b1f6a77")


class BranchTables(Protocol):
    """Gives Delta tables of branches HEADs of their own; see ``branches.tables``."""

    def make_own(self, catalog: str, path: Path) -> Tree:
        """Returns the tree of a branch in which the table ``path`` has a HEAD of its own."""


def no_own_log(catalog: str, path: Path) -> UnsupportedTable:
    """The refusal of a branch's table for which no log can be written here."""
    problem = f"'{dotted_name(catalog, *path)}' has no log of its own yet, and none can be written here"
    return UnsupportedTable(problem, field="table", remedy="tell the operator: pyarrow is missing here")


class InheritedTable(Exception):
    """A change of a branch is about a Delta table that has no HEAD of its own there yet."""

    def __init__(self, path: Path) -> None:
        super().__init__(dotted_name(*path))
        self.path = path


def full_branch_name(catalog: str, name: str) -> str:
    """Returns the name of the branch ``name`` of a catalog. Raises InvalidRequest for a name that
    is none, and for a branch of a branch."""
    refuse_branch(catalog, "branches of their own")
    if not is_identifier(name) or BRANCH_SIGN in name:
        remedy = "use 1 to 255 letters, digits, '_' or '-'; leave the catalog's name out"
        raise InvalidRequest(f"name {name[:300]!r} is not a valid name of a branch", field="name", remedy=remedy)
    full = f"{catalog}{BRANCH_SIGN}{name}"
    if len(full) > NAME_BYTES_MAX:
        problem = f"'{full[:40]}...' has {len(full)} characters"
        raise InvalidRequest(problem, field="name", remedy=f"{NAME_BYTES_MAX} with the catalog's name at most")
    return full


def refuse_branch(catalog: str, what: str) -> None:
    """Raises InvalidRequest for an operation that a branch does not have; ``what`` in the
    plural."""
    if is_branch(catalog):
        remedy = f"send it for catalog '{branched_catalog(catalog)}', or promote the branch first"
        raise InvalidRequest(f"'{catalog}' is a branch, and branches have no {what}", field="catalog", remedy=remedy)


def is_inherited(tree: Tree, entry: IndexEntry) -> bool:
    """Whether an entry of a branch leads to a table of the catalog that the branch belongs to."""
    shared = entry.obj.startswith(ENTITY_PREFIX) and not entry.obj.endswith(OWN)
    return entry.kind == TABLE and shared and is_branch(tree.catalog)


def own_table_id(tree: Tree, table: Table) -> str:
    """Returns the uuid that the catalog's ``table`` gets on a branch with its HEAD: clients that
    listed it before know it."""
    incarnation = tree.commit.incarnation or tree.catalog.lower()
    return str(uuid.uuid5(_NO_TABLE, f"{incarnation}/{table.table_id}"))


def base_location(head: TableHead) -> str:
    """Returns the location of the catalog's table, for a branch's table with its files; empty for
    any other table, also for one at a location that a client has chosen."""
    root, _ = split_location(head.location)
    is_own = head.managed and is_branch(head.catalog) and head.location == branch_location(root, head.table_id)
    return root if is_own else ""


def shown_table(tree: Tree, entry: IndexEntry, table: Table) -> Table:
    """Returns a table as listings show it: one that is still the catalog's has the uuid and the
    location that it will get. The uuid and location of its entity would lead to the catalog's
    table."""
    if table.external is not None or not is_inherited(tree, entry):
        return table
    id = own_table_id(tree, table)
    location = branch_location(table.location, id)
    origin = BranchOrigin(table.table_id, NOT_KNOWN)
    return msgspec.structs.replace(table, table_id=id, location=location, origin=origin)
