"""What judges requests, built once from one world: by name on trees, by uuid, and the metastore's rights."""

from __future__ import annotations

from collections.abc import Sequence

from turnstile.access.authorizer import AccessControl, Guard, Need
from turnstile.access.core.principal import Principal
from turnstile.access.core.rules import Rule
from turnstile.access.tables import TableAccess
from turnstile.catalog.reader import CatalogReader
from turnstile.store.world import World


class Judging:
    """Access control of one sandbox.

    Args:
        reader: share it with the catalog's services, for its caches; it must not be watched.
    """

    def __init__(self, world: World, reader: CatalogReader) -> None:
        self.access = AccessControl(world, reader)
        self.tables = TableAccess(world, reader, self.access)

    def guard(self, principal: Principal, needs: Sequence[Need], *, inside: bool = False) -> Guard:
        """The guard of one request."""
        return self.access.guard(principal, needs, inside=inside)

    def by_id(self, principal: Principal, rules: Sequence[Rule], table_id: str, *, fresh: bool) -> Guard:
        """The guard of a request that names a table by uuid, judged. Raises as ``TableAccess.judge``."""
        made = self.access.guard(principal, [])
        made.chain = self.tables.judge(principal, rules, table_id, fresh=fresh)
        return made
