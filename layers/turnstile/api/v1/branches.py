"""Branches of a catalog over HTTP (docs/branches.md)."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
from chalice.app import Blueprint

from turnstile.access.authorizer import Target
from turnstile.api.http.authorization import Params, needs
from turnstile.api.http.request import Query, body, current
from turnstile.api.http.responses import Answer, answer_201
from turnstile.api.services import services
from turnstile.api.v1.changes import AsOfBody, once
from turnstile.api.v1.paths import CATALOG, catalog_of_path
from turnstile.catalog.branches import DEFAULT_DAYS, Branch, branch_of
from turnstile.catalog.core.branches import full_branch_name
from turnstile.catalog.history.core import AsOf
from turnstile.catalog.services import CatalogServices
from turnstile.rights.grants import owner_for
from turnstile.rights.rules import branch_catalog, manage_branch, use_catalog
from turnstile.store.core.names import check_identifier

if TYPE_CHECKING:
    from turnstile.branches.promotion import BranchChanges, BranchChecks, Promoted, Promoter
    from turnstile.branches.update import Updated, Updater

routes = Blueprint(__name__)
changes = Blueprint(f"{__name__}.changes")
"""Routes that compare the content of tables, which may be read from files of Parquet."""

BRANCHES = CATALOG + "/branches"
BRANCH = BRANCHES + "/{branch}"


class NewBranch(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``POST .../branches``; ``from`` the moment that the branch shows, ``days`` until it ends;
    ``delta_registry``: commits name it in Delta's registry of branches."""

    name: str
    source: AsOfBody | Literal["head"] = msgspec.field(name="from", default="head")
    days: int = DEFAULT_DAYS
    comment: str | None = None
    delta_registry: bool = False


class Renewal(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``PATCH .../branches/{branch}``: ``days`` from now until it ends."""

    days: int = DEFAULT_DAYS


class Promotion(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``POST .../promote``; ``state``: of the changes that were looked at; ``tables``: the names of
    some changed tables, None for the whole branch."""

    state: Annotated[str, msgspec.Meta(min_length=1)] | None = None
    tables: Annotated[list[str], msgspec.Meta(min_length=1, max_length=1_000)] | None = None


class BranchList(msgspec.Struct, frozen=True):
    """The branches of a catalog, by name."""

    branches: list[Branch]


def branch_of_path(params: Params) -> Target:
    """The branch that the path names, as the catalog that it is."""
    return Target(_full_name(params["catalog"], params["branch"]))


def _full_name(catalog: str, branch: str) -> str:
    return full_branch_name(check_identifier(catalog, "catalog"), branch)


@routes.route(BRANCHES, methods=["GET"])
@needs((use_catalog, catalog_of_path))
def list_branches(catalog: str) -> BranchList:
    Query()
    return BranchList(services().catalog.branches.list(check_identifier(catalog, "catalog")))


@routes.route(BRANCHES, methods=["POST"])
@needs((branch_catalog, catalog_of_path))
def create_branch(catalog: str) -> Answer:
    request = body(NewBranch)
    name = check_identifier(catalog, "catalog")
    owner = owner_for(current().principal)

    def create(by: CatalogServices) -> Branch:
        source = None if request.source == "head" else request.source
        of = None if source is None else source.as_of("from")
        with nullcontext() if source is None else source.report_as("from"):
            return by.branches.create(
                name,
                request.name,
                of=of,
                days=request.days,
                comment=request.comment,
                owner=owner,
                delta_registry=request.delta_registry,
            )

    def again(by: CatalogServices, seq: int | None) -> Branch:
        return branch_of(by.history.tree(name, AsOf(seq=seq)), by.reader.store, request.name)

    return answer_201(once(name, create, again))


@routes.route(BRANCH, methods=["GET"])
@needs((use_catalog, catalog_of_path))
def show_branch(catalog: str, branch: str) -> Branch:
    Query()
    return services().catalog.branches.get(check_identifier(catalog, "catalog"), branch)


@routes.route(BRANCH, methods=["PATCH"])
@needs((use_catalog, catalog_of_path), (manage_branch, branch_of_path))
def renew_branch(catalog: str, branch: str) -> Branch:
    request = body(Renewal)
    return services().catalog.branches.renew(check_identifier(catalog, "catalog"), branch, request.days)


@routes.route(BRANCH, methods=["DELETE"])
@needs((use_catalog, catalog_of_path), (manage_branch, branch_of_path))
def drop_branch(catalog: str, branch: str) -> None:
    Query()
    name = check_identifier(catalog, "catalog")
    once(name, lambda by: by.branches.drop(name, branch), lambda *_: None)


@changes.route(BRANCH + "/diff", methods=["GET"])
@needs((use_catalog, catalog_of_path), (manage_branch, branch_of_path))
def diff_branch(catalog: str, branch: str) -> BranchChanges:
    Query()
    return _promoter(services().catalog).changes(check_identifier(catalog, "catalog"), branch)


@changes.route(BRANCH + "/checks", methods=["POST"])
@needs((use_catalog, catalog_of_path), (manage_branch, branch_of_path))
def record_branch_checks(catalog: str, branch: str) -> BranchChecks:
    from turnstile.branches.records import BranchFindings

    request = body(BranchFindings)
    name = check_identifier(catalog, "catalog")
    return _promoter(services().catalog).record(name, branch, request.state, request.findings)


@changes.route(BRANCH + "/update", methods=["POST"])
@needs((branch_catalog, catalog_of_path), (manage_branch, branch_of_path))
def update_branch(catalog: str, branch: str) -> Updated:
    from turnstile.branches.update import Updated

    Query()
    name = check_identifier(catalog, "catalog")
    return once(
        name,
        lambda by: _updater(by).update(name, branch),
        lambda by, _seq: Updated(by.branches.get(name, branch), []),
    )


@changes.route(BRANCH + "/promote", methods=["POST"])
@needs((use_catalog, catalog_of_path), (manage_branch, branch_of_path))
def promote_branch(catalog: str, branch: str) -> Promoted:
    from turnstile.branches.promotion import Promoted

    request = body(Promotion)
    name = check_identifier(catalog, "catalog")
    full = _full_name(catalog, branch)
    return once(
        name,
        lambda by: _promoter(by).promote(name, branch, request.state or "", request.tables or ()),
        lambda _by, seq: Promoted(full, seq, [], []),
    )


def _updater(by: CatalogServices) -> Updater:
    from turnstile.branches.update import Updater

    return Updater(by, services().groups, principal=current().principal.name)


def _promoter(by: CatalogServices) -> Promoter:
    from turnstile.branches.promotion import Promoter
    from turnstile.branches.promotion_rights import PromotionRights

    principal = current().principal
    return Promoter(by, services().groups, PromotionRights(principal), principal=principal.name)
