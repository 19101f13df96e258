"""The rules of access: the whole matrix, as functions of a principal and of the rights along one
path (I12).

Source: the authorization expressions and the policy model of Unity Catalog's server (0.7). In
short:

* A privilege that was granted on a securable holds on everything below it. Ownership does not: an
  owner of a securable may see, drop and grant everything below it, and needs further grants to read
  or to write data.
* Nothing below a catalog or a namespace is reached without USE (or ownership) of every level above
  it.
* A missing entity is authorized as if it existed, without an owner and without grants of its own.
  So the answer "not permitted" says nothing about existence; "does not exist" is for principals
  that would have been let in, or may create it.

docs/access-control.md has the matrix as a table; where it is stricter than the source, it says so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from turnstile.rights.grants import MANAGE_BRANCH, NO_ACCESS, Access, Principal, Privilege


class Chain(msgspec.Struct, frozen=True):
    """Rights along a full name: the catalog's, the namespaces' from the outermost in, the table's.

    ``missing`` is the position of the first level that does not exist: the catalog is 0, the
    outermost namespace 1 and so on; None when all exist. Missing levels have ``NO_ACCESS``.
    """

    catalog: Access
    schemas: tuple[Access, ...] = ()
    table: Access | None = None
    missing: int | None = None

    @property
    def levels(self) -> tuple[Access, ...]:
        return (self.catalog, *self.schemas) if self.table is None else (self.catalog, *self.schemas, self.table)

    def upto(self, level: int) -> Chain:
        """Returns the first ``level`` levels, the catalog included, as a chain that ends with a
        namespace or the catalog."""
        return Chain(self.catalog, self.schemas[: level - 1])


def padded_chain(levels: Sequence[Access], schemas: int, *, table: bool) -> Chain:
    """Returns the chain of a name with ``schemas`` namespaces (and a table), of which only
    ``levels`` exist."""
    count = 1 + schemas + table
    full = (*levels, *(NO_ACCESS,) * (count - len(levels)))
    missing = len(levels) if len(levels) < count else None
    return Chain(full[0], full[1 : 1 + schemas], full[-1] if table else None, missing)


class Subject(msgspec.Struct, frozen=True):
    """A principal, by its names, with the rights along one chain."""

    names: frozenset[str]
    chain: Chain

    def owns(self, level: int) -> bool:
        return self.chain.levels[level].owned_by(self.names)

    def holds(self, *privileges: Privilege, level: int | None = None) -> bool:
        """Whether all of these were granted to it at ``level`` (the last one by default) or
        above."""
        above = self.chain.levels if level is None else self.chain.levels[: level + 1]
        held = frozenset[Privilege]().union(*(access.held_by(self.names) for access in above))
        return held.issuperset(privileges)

    def uses(self, level: int) -> bool:
        """Whether it may use every level before ``level``: the catalog and the namespaces."""
        return all(self._uses(above) for above in range(min(level, 1 + len(self.chain.schemas))))

    def _uses(self, level: int) -> bool:
        privilege = Privilege.USE_SCHEMA if level else Privilege.USE_CATALOG
        return self.owns(level) or self.holds(privilege, level=level)

    @property
    def inside(self) -> bool:
        """Whether it may use the catalog and all namespaces of the chain."""
        return self.uses(1 + len(self.chain.schemas))

    @property
    def owns_schema(self) -> bool:
        """Whether it owns the namespace or one around it, and may use the levels above that."""
        return any(self.owns(level) and self.uses(level) for level in range(1, 1 + len(self.chain.schemas)))

    @property
    def owns_around(self) -> bool:
        """Whether it owns the catalog or a namespace of the chain."""
        return self.owns(0) or self.owns_schema

    @property
    def owns_table(self) -> bool:
        return self.chain.table is not None and self.chain.table.owned_by(self.names)


Rule = Callable[[Subject], bool]
"""The condition of an operation. Rules of a table need a chain with a table, the others one
without."""


def use_catalog(subject: Subject) -> bool:
    """See the catalog, and which APIs it is served by."""
    return subject.uses(1)


def branch_catalog(subject: Subject) -> bool:
    """Make a branch of the catalog, which shows all that is in it."""
    return read_schema(subject)


def manage_branch(subject: Subject) -> bool:
    """Renew, compare or drop the branch: for its owner, and for principals with every privilege of
    ``MANAGE_BRANCH`` on it, such as the owner of its catalog."""
    return subject.owns(0) or subject.holds(*MANAGE_BRANCH, level=0)


def promote(subject: Subject) -> bool:
    """Promote changes of the chain's last level, or of names in it, with a branch."""
    return subject.owns(0) or (subject.inside and subject.holds(Privilege.PROMOTE))


def edit_catalog(subject: Subject) -> bool:
    """Change, drop or grant the catalog."""
    return subject.owns(0)


def create_schema(subject: Subject) -> bool:
    """Create a namespace in the chain's last level."""
    return subject.owns_around or (subject.inside and subject.holds(Privilege.CREATE_SCHEMA))


def see_schema(subject: Subject) -> bool:
    """See the namespace, and find it in listings."""
    return subject.owns_around or subject.inside


def read_schema(subject: Subject) -> bool:
    """Read all that is below, or will be, as a clone shows it. It is not looked at, so a refusal
    says nothing about it."""
    return subject.inside and subject.holds(Privilege.USE_SCHEMA, Privilege.SELECT)


def edit_schema(subject: Subject) -> bool:
    """Change, drop or grant the namespace, with any content."""
    return subject.owns_around


def create_table(subject: Subject) -> bool:
    """Create a table in the namespace. The catalog's owner alone may not: that does not make it the
    namespace's owner."""
    return subject.uses(1) and (subject.owns_schema or (subject.inside and subject.holds(Privilege.CREATE_TABLE)))


def see_table(subject: Subject) -> bool:
    """See the table's metadata and versions, and find it in listings."""
    privileged = subject.owns_table or subject.holds(Privilege.SELECT) or subject.holds(Privilege.MODIFY)
    return subject.owns_around or (subject.inside and privileged)


def read_table(subject: Subject) -> bool:
    """Read content: the data of commits, and files with credentials that cannot write."""
    return subject.inside and (subject.owns_table or subject.holds(Privilege.SELECT))


def modify_table(subject: Subject) -> bool:
    """Commit, and change metadata."""
    return subject.inside and (subject.owns_table or subject.holds(Privilege.MODIFY))


def write_files(subject: Subject) -> bool:
    """Get credentials that read and write the table's files."""
    return subject.inside and (subject.owns_table or subject.holds(Privilege.SELECT, Privilege.MODIFY))


def edit_table(subject: Subject) -> bool:
    """Drop, export or grant the table."""
    return subject.owns_around or (subject.inside and subject.owns_table)


def create_catalog(subject: Subject) -> bool:
    """Create a catalog; the chain is the metastore alone."""
    return subject.holds(Privilege.CREATE_CATALOG)


def read_paths(subject: Subject) -> bool:
    """Get credentials that read files which belong to no table."""
    return subject.holds(Privilege.READ_FILES)


def write_paths(subject: Subject) -> bool:
    """Get credentials that read and write files which belong to no table."""
    return subject.holds(Privilege.READ_FILES, Privilege.WRITE_FILES)


def create_external(subject: Subject) -> bool:
    """Register tables where files belong to none, and write them there first."""
    return subject.holds(Privilege.CREATE_EXTERNAL_TABLE)


def create_reference(subject: Subject) -> bool:
    """Create a reference for another system. Rights on it are in its own row
    (``coordination.core.ref_rights``)."""
    return subject.holds(Privilege.CREATE_REFERENCE)


def admin_only(_subject: Subject) -> bool:
    """For admins only."""
    return False


TABLE_RULES: Final = (see_table, read_table, modify_table, write_files, edit_table)
METASTORE_RULES: Final = (create_catalog, read_paths, write_paths, create_external, create_reference)


def is_permitted(rule: Rule, principal: Principal, chain: Chain) -> bool:
    """Whether ``principal`` passes ``rule`` on the entity of the chain, whether or not that
    exists."""
    return principal.admin or rule(Subject(principal.names, chain))


def may_go_on(rule: Rule, principal: Principal, chain: Chain) -> bool:
    """Whether an operation may go on: it is permitted, or it may answer that its subject does not
    exist.

    ``create_schema`` is about the namespace to create; it has to be permitted on the last level
    above it that exists.
    """
    if rule is create_schema:
        level = len(chain.levels) - 1 if chain.missing is None else chain.missing
        return level > 0 and is_permitted(create_schema, principal, chain.upto(level))
    return is_permitted(rule, principal, chain) or (
        chain.missing is not None and rule not in (*METASTORE_RULES, admin_only) and may_know_missing(principal, chain)
    )


def may_know_missing(principal: Principal, chain: Chain) -> bool:
    """Whether it may learn that the chain's first missing level does not exist, since it may create
    it there."""
    if principal.admin or chain.missing is None:
        return True
    rule: Rule = create_table if chain.missing == len(chain.levels) - 1 and chain.table is not None else create_schema
    return chain.missing > 0 and is_permitted(rule, principal, chain.upto(chain.missing))
