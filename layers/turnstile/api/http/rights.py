"""What judges requests, built once from one world: by name on trees, by uuid, and the metastore's rights."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, ParamSpec, Protocol, TypeVar

from turnstile.access.authorizer import METASTORE, AccessControl, Guard, Need, Target
from turnstile.access.core.grants import Principal
from turnstile.access.core.rules import Rule
from turnstile.access.tables import TableAccess
from turnstile.api.http.request import current
from turnstile.catalog.reader import CatalogReader
from turnstile.store.core.errors import TurnstileError
from turnstile.store.ports import World


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


# -- rights -----------------------------------------------------------------------------------------------------------
# What a route needs, declared where it is registered, judged before its view is answered (I12).
#
# A view carries its declaration: ``@rights.needs((see_table, by_name))``.
#
# Nothing can be forgotten: services are only handed out inside a declared view (``guard`` raises elsewhere); what they do
# is judged by the request's guard; and an answer whose needs were not all judged is never sent. A test walks the routes
# of every function.


P = ParamSpec("P")
R = TypeVar("R")
View = Callable[P, R]

TargetOf = Callable[[Mapping[str, Any]], Target | None]
"""From the path's parameters (and the request's body and query) to what the request is about; None where it is not
about that, so that the rule is not needed."""

_guard: ContextVar[Guard] = ContextVar("turnstile_http_guard")


class Judges(Protocol):
    """What a function's services offer for judging."""

    def guard(self, principal: Principal, needs: Sequence[Need], *, inside: bool = False) -> Guard:
        """The guard of one request."""

    def by_id(self, principal: Principal, rules: Sequence[Rule], table_id: str, *, fresh: bool) -> Guard:
        """The guard of a request that names a table by uuid, judged; raises PermissionDenied or NotFound."""


def guard() -> Guard:
    """The guard of the request being answered.

    Raises:
        TurnstileError: the view declares no need.
    """
    found = _guard.get(None)
    if found is None:
        raise TurnstileError(f"{current().method} {current().route} declares nothing that it needs")
    return found


class Rights:
    """Declarations of one function.

    Args:
        judges: opens what judges them.
    """

    def __init__(self, judges: Callable[[], Judges]) -> None:
        self._judges = judges
        self.declared: dict[str, str] = {}

    def needs(self, *needed: tuple[Rule, TargetOf], first: bool = False) -> Callable[[View[P, R]], View[P, R]]:
        """A view that needs these rules to hold on these targets.

        Args:
            first: judge before the view begins, for one that does not come by the catalog's tree, or writes before it
                does. Costs a read for those who are no admins. Rights on the metastore are always judged first.
        """

        def make(params: Mapping[str, Any]) -> Guard:
            principal = current().principal
            wanted: list[Need] = []
            for rule, of in needed if not principal.admin else ():
                target = of(params)
                if target is not None:
                    wanted.append(Need(rule, target))
            made = self._judges().guard(principal, wanted)
            if first or any(need.target == METASTORE for need in wanted):
                made.settle()
            return made

        return self._declare(" and ".join(rule.__name__ for rule, _ in needed), make)

    def needs_table(
        self,
        *rules: Rule,
        of: Callable[[Mapping[str, Any]], str],
        also: Callable[[], Sequence[Rule]] = tuple,
        fresh: bool = False,
    ) -> Callable[[View[P, R]], View[P, R]]:
        """A view that needs these rules to hold on the table of a uuid.

        Args:
            also: what the request needs beyond ``rules``.
            fresh: for an answer that outlives the request.
        """

        def make(params: Mapping[str, Any]) -> Guard:
            principal = current().principal
            if principal.admin:
                return self._judges().guard(principal, [])
            return self._judges().by_id(principal, (*rules, *also()), of(params), fresh=fresh)

        return self._declare(" and ".join(rule.__name__ for rule in rules) + " by id", make)

    def judged_inside(self, what: str) -> Callable[[View[P, R]], View[P, R]]:
        """A view that judges by itself, since no rule can: it has to call ``guard().passed()``."""
        return self._declare(what, lambda _: self._judges().guard(current().principal, [], inside=True))

    def for_everybody(self, view: View[P, R]) -> View[P, R]:
        """A view that tells nothing about anybody's data."""
        return self._declare("nothing", lambda _: self._judges().guard(current().principal, []))(view)

    def _declare(self, what: str, make: Callable[[Mapping[str, Any]], Guard]) -> Callable[[View[P, R]], View[P, R]]:
        def declare(view: View[P, R]) -> View[P, R]:
            @functools.wraps(view)
            def judged(*args: P.args, **params: P.kwargs) -> R:
                made = make(params)
                token = _guard.set(made)
                try:
                    answer = view(*args, **params)
                finally:
                    _guard.reset(token)
                if not made.judged:
                    raise TurnstileError(f"{view.__name__} answered without having been judged")
                return answer

            name = getattr(view, "__name__", "")
            if name in self.declared:
                raise ValueError(f"two views are called {name}")
            self.declared[name] = what
            return judged

        return declare
