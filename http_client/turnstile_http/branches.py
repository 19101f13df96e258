"""Branches of a catalog: ``lake.branches`` of both clients.

    dev = lake.branches.create("dev", days=7)     # dev.full_name, main@dev, is a catalog
    lake.branches.check("dev")                    # the outcomes of expectations
    lake.branches.changes("dev").conflicts        # the reasons why it would be refused
    lake.branches.promote("dev")

The commands ``turnstile branch`` do the same (docs/branches.md).
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

from turnstile_http.api import Api, moment_body
from turnstile_http.errors import ApiError
from turnstile_http.http import Json, path
from turnstile_http.names import check_branch_name, short_branch_name


@dataclass(frozen=True, slots=True)
class Branch:
    """A branch. ``full_name``: the name of the catalog that it is; ``until_ms``: its end, in ms
    since the epoch; ``delta_registry``: whether commits name it in Delta's registry of branches."""

    name: str
    full_name: str
    until_ms: int
    owner: str
    comment: str | None
    delta_registry: bool = False

    @classmethod
    def read(cls, response: Json) -> Self:
        """Of an answer of the server."""
        return cls(
            response["name"],
            response["full_name"],
            response["until"],
            response.get("owner", ""),
            response.get("comment"),
            response.get("delta_registry", False),
        )


@dataclass(frozen=True, slots=True)
class BranchChanges:
    """The changes of a branch.

    Attributes:
        tables: of each changed Delta table its ``name``, ``files_added``, ``files_removed``,
            ``rows_added``, ``rows_removed``, ``operations``, and the ``version`` of a promotion.
        names: each new, changed or dropped name, and each new name of a Delta table, with its
            ``old_name``.
        conflicts: the reasons why a promotion would be refused.
        checks: of each expectation of these tables the ``table``, its ``version``, the name
            ``expectation``, the ``condition``, the ``outcome`` (``passed``, ``broken``,
            ``unchecked``), and the ``problem``.
        state: identifies these changes, for ``Branches.promote``.
        seq: number of the catalog's commit that promoted it, None for none.
    """

    tables: list[dict[str, Any]]
    names: list[dict[str, Any]]
    conflicts: list[str]
    checks: list[dict[str, Any]]
    state: str = ""
    seq: int | None = None

    @classmethod
    def read(cls, response: Json) -> Self:
        """Of an answer of the server."""
        lists = response["tables"], response["names"], response.get("conflicts", []), response.get("checks", [])
        return cls(*lists, response.get("state", ""), response.get("seq"))


class Branches:
    """The branches of the catalog of ``api``; ``main@dev`` names one as ``dev`` does. Methods raise
    :class:`ApiError`, or the ``error`` that is made of it."""

    def __init__(self, api: Api, error: Callable[[ApiError], Exception] = lambda error: error) -> None:
        self._http = api.http
        self._catalog = api.catalog
        self._error = error

    def create(
        self,
        name: str,
        *,
        days: int = 30,
        comment: str | None = None,
        at: int | dt.datetime | None = None,
        delta_registry: bool = False,
    ) -> Branch:
        """Makes a branch of the catalog as it is now, or as it was ``at`` a time or number of its
        log. It ends after ``days``. With ``delta_registry`` commits name it in Delta's registry of
        branches."""
        body = {"name": check_branch_name(self._short(name)), "days": days}
        body |= {} if comment is None else {"comment": comment}
        body |= {} if at is None else {"from": moment_body(at)}
        body |= {"delta_registry": True} if delta_registry else {}
        return Branch.read(self._call("createBranch", "POST", self._route(), body, change=True))

    def __iter__(self) -> Iterator[Branch]:
        """The branches by name."""
        return map(Branch.read, self._call("branches", "GET", self._route())["branches"])

    def changes(self, name: str) -> BranchChanges:
        """Returns everything that a promotion would do now."""
        return BranchChanges.read(self._call("branchChanges", "GET", self._route(name, "diff")))

    def check(self, name: str) -> list[dict[str, Any]]:
        """Returns the outcome of each expectation of the tables that the branch changes, as
        ``BranchChanges.checks``."""
        return self.changes(name).checks

    def update(self, name: str) -> Branch:
        """Takes over all changes of the catalog since the base of the branch. Returns the branch.
        The error ``BranchConflict`` names the changes of both that conflict."""
        return Branch.read(self._call("updateBranch", "POST", self._route(name, "update"), change=True)["branch"])

    def promote(self, name: str, *, state: str | None = None, tables: Sequence[str] = ()) -> BranchChanges:
        """Makes the changes of a branch changes of its catalog, all at once, and ends the branch;
        one without changes stays. With the ``state`` of changes that were looked at no others are
        promoted. With ``tables`` only these changed Delta tables are, and the branch is updated and
        stays. The error ``BranchConflict`` says why it cannot be promoted (``changes`` has all
        reasons)."""
        body: dict[str, Any] = {} if state is None else {"state": state}
        body |= {"tables": [*tables]} if tables else {}
        return BranchChanges.read(self._call("promote", "POST", self._route(name, "promote"), body, change=True))

    def renew(self, name: str, days: int) -> Branch:
        """Moves the end of a branch to so many days from now."""
        return Branch.read(self._call("renewBranch", "PATCH", self._route(name), {"days": days}))

    def drop(self, name: str) -> None:
        """Drops a branch with everything that was not promoted."""
        self._call("dropBranch", "DELETE", self._route(name), change=True)

    def _call(self, *request: Any, change: bool = False) -> Json:
        try:
            return self._http.call(*request, change=change)
        except ApiError as error:
            raise self._error(error) from None

    def _route(self, *parts: str) -> str:
        return path("v1", "catalogs", self._catalog, "branches", *map(self._short, parts))

    def _short(self, name: str) -> str:
        return short_branch_name(self._catalog, name)
