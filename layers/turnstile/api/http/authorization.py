"""The needs of a route, declared at its view and authorized before anything is answered (I12).

A view carries its declaration: ``@needs((see_table, table_of_path))``. No view can do without.
Services are only handed out inside a view that declares something, their actions are authorized by
the request's guard, and an answer is never sent unless all its needs were authorized. A test walks
the routes of every app.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, ParamSpec, TypeVar

from turnstile.access.authorizer import METASTORE, Authorizer, Guard, Need, Target
from turnstile.access.tables import TableAuthorizer
from turnstile.api.http.request import current
from turnstile.catalog.reader import CatalogReader
from turnstile.rights.grants import Principal
from turnstile.rights.rules import Rule
from turnstile.store.core.errors import TurnstileError
from turnstile.store.ports import World

P = ParamSpec("P")
R = TypeVar("R")
View = Callable[P, R]

Params = Mapping[str, Any]
"""Parameters of a path, by name."""

TargetOf = Callable[[Params], Target | None]
"""From the path's parameters (and the request's body and query) to the subject of the request; None
if it has no such subject, so that the rule is not needed."""

NEEDS: Final = "turnstile_needs"
"""The attribute of a view with its declaration."""


class Authorizers:
    """Access control of one sandbox: by name on trees, by uuid, and the metastore's rights.
    ``reader`` is that of the catalog's services, for its caches; it must not be watched."""

    def __init__(self, world: World, reader: CatalogReader) -> None:
        self.access = Authorizer(world, reader)
        self.tables = TableAuthorizer(world, reader, self.access)

    def by_id(self, principal: Principal, rules: Sequence[Rule], table_id: str, *, fresh: bool) -> Guard:
        """Returns the authorized guard of a request that names a table by uuid; raises
        PermissionDenied or NotFound."""
        guard = self.access.guard(principal, [])
        guard.chain = self.tables.authorize(principal, rules, table_id, fresh=fresh)
        return guard


def guard() -> Guard:
    """Returns the guard of the request being answered; raises TurnstileError where the view
    declares no need."""
    request = current()
    if request.guard is None:
        raise TurnstileError(f"{request.method} {request.route} declares nothing that it needs")
    return request.guard


def metastore(_params: Params) -> Target:
    """Returns the realm itself."""
    return METASTORE


# -- declarations -----------------------------------------------------------------------------------------------------


def needs(*needed: tuple[Rule, TargetOf], first: bool = False) -> Callable[[View[P, R]], View[P, R]]:
    """Declares that these rules have to hold on these targets.

    Args:
        first: authorize before the view begins, for a view that does not come by the catalog's
            tree, or writes before it does. Costs a read for principals that are no admins. Rights
            on the metastore always come first.
    """

    def make(params: Params) -> Guard:
        needed_here = () if current().principal.admin else needed
        targets = [(rule, target_of(params)) for rule, target_of in needed_here]
        wanted = [Need(rule, target) for rule, target in targets if target is not None]
        guard = _guard(*wanted)
        if first or any(need.target == METASTORE for need in wanted):
            guard.authorize_now()
        return guard

    return _declare(" and ".join(rule.__name__ for rule, _ in needed), make)


def needs_table(
    *rules: Rule, of: Callable[[Params], str], also: Callable[[], Sequence[Rule]] = tuple, fresh: bool = False
) -> Callable[[View[P, R]], View[P, R]]:
    """Declares that these rules have to hold on the table of a uuid.

    Args:
        of: from the path's parameters (and body and query) to the uuid.
        also: the needs of the request beyond ``rules``.
        fresh: for an answer that outlives the request.
    """

    def make(params: Params) -> Guard:
        principal = current().principal
        if principal.admin:
            return _guard()
        return _authorizers().by_id(principal, (*rules, *also()), of(params), fresh=fresh)

    return _declare(" and ".join(rule.__name__ for rule in rules) + " by id", make)


def table_guards(rules: Sequence[Rule], table_ids: Sequence[str]) -> list[Guard]:
    """Returns an authorized guard for each table of a request that names several in its body;
    raises PermissionDenied or NotFound. For a view that is ``authorized_by_view``."""
    principal = current().principal
    if principal.admin:
        return [_guard() for _ in table_ids]
    _authorizers().tables.prefetch(table_ids)
    return [_authorizers().by_id(principal, rules, id, fresh=False) for id in table_ids]


def authorized_by_view(what: str) -> Callable[[View[P, R]], View[P, R]]:
    """Declares that the view authorizes by itself, since no rule can: it has to call
    ``guard().mark_authorized()``."""
    return _declare(what, lambda _: _guard(inside=True))


def open_to_all(view: View[P, R]) -> View[P, R]:
    """Declares that the view shows no data of the lake."""
    declare = _declare("nothing", lambda _: _guard())
    return declare(view)


def _authorizers() -> Authorizers:
    authorizers: Authorizers = current().services.authorizers
    return authorizers


def _guard(*needs: Need, inside: bool = False) -> Guard:
    return _authorizers().access.guard(current().principal, needs, inside=inside)


def _declare(what: str, make: Callable[[Params], Guard]) -> Callable[[View[P, R]], View[P, R]]:
    def declare(view: View[P, R]) -> View[P, R]:
        name = getattr(view, "__name__", "")
        if hasattr(view, NEEDS):
            raise ValueError(f"{name} declares what it needs twice")

        @functools.wraps(view)
        def authorized_view(*args: P.args, **params: P.kwargs) -> R:
            guard = current().guard = make(params)
            answer = view(*args, **params)
            if not guard.is_authorized:
                raise TurnstileError(f"{name} answered without having been authorized")
            return answer

        setattr(authorized_view, NEEDS, what)
        return authorized_view

    return declare
