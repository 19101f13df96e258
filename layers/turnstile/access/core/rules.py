"""Who may do what: the whole matrix, as functions of who asks and of the rights along one path (I12).

Source: the authorization expressions and the policy model of Unity Catalog's server (0.7). In short:

* A privilege that was granted on a securable holds on everything below it. Ownership does not: an owner of something
  above may see, drop and grant what is below, and has to grant itself more to read or to write data.
* Nothing below a catalog or a namespace is reached without USE (or ownership) of every level above it.
* What does not exist is judged as if it did, with nobody as its owner and no grants of its own. So the answer "not
  permitted" says nothing about existence; "does not exist" is for those who would have been let in, or may create it.

docs/access-control.md has the matrix as a table; where it is stricter than the source, it says so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from turnstile.access.core.grants import NOBODY, Access, Principal, Privilege


@dataclass(frozen=True, slots=True)
class Chain:
    """Rights along a full name: the catalog's, those of the namespaces from the outermost in, the table's.

    ``missing`` is the position of the first level that does not exist, counted as the catalog 0, the outermost
    namespace 1 and so on; None when all do. Missing levels have the rights of ``NOBODY``.
    """

    catalog: Access
    schemas: tuple[Access, ...] = ()
    table: Access | None = None
    missing: int | None = None

    @property
    def levels(self) -> tuple[Access, ...]:
        """All of them, the catalog first."""
        return (self.catalog, *self.schemas) if self.table is None else (self.catalog, *self.schemas, self.table)

    def upto(self, level: int) -> Chain:
        """The first ``level`` levels, the catalog included, as a chain that ends with a namespace or the catalog."""
        return Chain(self.catalog, self.schemas[: level - 1])


@dataclass(frozen=True, slots=True)
class Standing:
    """How a principal stands along a chain."""

    names: frozenset[str]
    chain: Chain

    def owns(self, level: int) -> bool:
        """Whether it owns this very level."""
        return self.chain.levels[level].owned_by(self.names)

    def holds(self, *privileges: Privilege, level: int | None = None) -> bool:
        """Whether all of these were granted to it at ``level`` (the last one by default) or above."""
        above = self.chain.levels if level is None else self.chain.levels[: level + 1]
        held = frozenset[Privilege]().union(*(access.held_by(self.names) for access in above))
        return held.issuperset(privileges)

    def uses(self, level: int) -> bool:
        """Whether it may use every level before ``level``: the catalog and the namespaces."""
        return all(self._uses(above) for above in range(min(level, 1 + len(self.chain.schemas))))

    def _uses(self, level: int) -> bool:
        wanted = Privilege.USE_SCHEMA if level else Privilege.USE_CATALOG
        return self.owns(level) or self.holds(wanted, level=level)

    @property
    def inside(self) -> bool:
        """Whether it may use the catalog and all namespaces of the chain."""
        return self.uses(1 + len(self.chain.schemas))

    @property
    def owns_schema(self) -> bool:
        """Whether it owns the namespace or one around it, and may use what is above that."""
        return any(self.owns(level) and self.uses(level) for level in range(1, 1 + len(self.chain.schemas)))

    @property
    def owns_around(self) -> bool:
        """Whether it owns the catalog or a namespace of the chain."""
        return self.owns(0) or self.owns_schema

    @property
    def owns_table(self) -> bool:
        """Whether it owns the table."""
        return self.chain.table is not None and self.chain.table.owned_by(self.names)


Rule = Callable[[Standing], bool]
"""What has to hold for an operation. Rules of a table want a chain with a table, the others one without."""


def use_catalog(at: Standing) -> bool:
    """See the catalog and learn what is spoken in it."""
    return at.uses(1)


def edit_catalog(at: Standing) -> bool:
    """Change, drop or grant the catalog."""
    return at.owns(0)


def create_schema(at: Standing) -> bool:
    """Create a namespace in the chain's last level."""
    return at.owns_around or (at.inside and at.holds(Privilege.CREATE_SCHEMA))


def see_schema(at: Standing) -> bool:
    """See the namespace, and find it in listings."""
    return at.owns_around or at.inside


def read_schema(at: Standing) -> bool:
    """Read all that is below, or will be: what a clone of the namespace (or the catalog) shows. No look at what is below
    is needed, so the refusal says nothing about it."""
    return at.inside and at.holds(Privilege.USE_SCHEMA, Privilege.SELECT)


def edit_schema(at: Standing) -> bool:
    """Change, drop or grant the namespace, whatever is in it."""
    return at.owns_around


def create_table(at: Standing) -> bool:
    """Create a table in the namespace. The catalog's owner alone may not: it owns no namespace by that."""
    return at.uses(1) and (at.owns_schema or (at.inside and at.holds(Privilege.CREATE_TABLE)))


def see_table(at: Standing) -> bool:
    """See the table's metadata and versions, and find it in listings."""
    return at.owns_around or (at.inside and (at.owns_table or at.holds(Privilege.SELECT) or at.holds(Privilege.MODIFY)))


def read_table(at: Standing) -> bool:
    """Read content: what commits hold, and files by keys that cannot write."""
    return at.inside and (at.owns_table or at.holds(Privilege.SELECT))


def modify_table(at: Standing) -> bool:
    """Commit, and change metadata."""
    return at.inside and (at.owns_table or at.holds(Privilege.MODIFY))


def write_files(at: Standing) -> bool:
    """Get keys that read and write the table's files."""
    return at.inside and (at.owns_table or at.holds(Privilege.SELECT, Privilege.MODIFY))


def edit_table(at: Standing) -> bool:
    """Drop, export or grant the table."""
    return at.owns_around or (at.inside and at.owns_table)


def create_catalog(at: Standing) -> bool:
    """Create a catalog; the chain is the metastore alone."""
    return at.holds(Privilege.CREATE_CATALOG)


def read_paths(at: Standing) -> bool:
    """Get keys that read files which belong to no table."""
    return at.holds(Privilege.READ_FILES)


def write_paths(at: Standing) -> bool:
    """Get keys that read and write files which belong to no table."""
    return at.holds(Privilege.READ_FILES, Privilege.WRITE_FILES)


def create_external(at: Standing) -> bool:
    """Register tables where files belong to none, and write them there first."""
    return at.holds(Privilege.CREATE_EXTERNAL_TABLE)


def create_reference(at: Standing) -> bool:
    """Create a reference for another system; who may do what with it then is in its own row (``core/ref_rights.py``)."""
    return at.holds(Privilege.CREATE_REFERENCE)


def nobody(_at: Standing) -> bool:
    """For admins only."""
    return False


TABLE_RULES: Final = (see_table, read_table, modify_table, write_files, edit_table)
METASTORE_RULES: Final = (create_catalog, read_paths, write_paths, create_external, create_reference)


def permitted(rule: Rule, principal: Principal, chain: Chain) -> bool:
    """Whether ``principal`` passes ``rule`` on what the chain leads to, be it there or not."""
    return principal.admin or rule(Standing(principal.names, chain))


def may_know_missing(principal: Principal, chain: Chain) -> bool:
    """Whether it may be told that the chain's first missing level does not exist, since it may create it there."""
    if principal.admin or chain.missing is None:
        return True
    if chain.missing == 0:
        return False
    rule: Rule = create_table if chain.missing == len(chain.levels) - 1 and chain.table is not None else create_schema
    return permitted(rule, principal, chain.upto(chain.missing))


def padded(found: Sequence[Access], schemas: int, *, table: bool) -> Chain:
    """The chain of a name of which only the levels ``found`` exist."""
    wanted = 1 + schemas + table
    levels = (*found, *(NOBODY,) * (wanted - len(found)))
    missing = len(found) if len(found) < wanted else None
    return Chain(levels[0], levels[1 : 1 + schemas], levels[-1] if table else None, missing)
