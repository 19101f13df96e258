"""Every operation is driven into every status that openapi/v1.yaml gives it, on the real handlers;
bodies must fit."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from tests.support.catalog import build
from tests.support.clones import iceberg_table
from tests.support.fakes import delta
from tests.support.functions import Answer, Function, Http
from tests.support.openapi import operations
from tests.support.v1 import NOBODY, Site
from turnstile.api.http.request import MAX_BODY
from turnstile.api.v1 import rows
from turnstile.coordination.tasks import Tasks
from turnstile.events.append import Appender, behind
from turnstile.events.core.cloud_events import FLEET
from turnstile.events.core.cursors import Place
from turnstile.events.fleet_log import FleetLog, fleet_event
from turnstile.fleet.core.changes import JOINED, FleetChange
from turnstile.gc.collector import TASK
from turnstile.store.core.errors import OutcomeUnknown, StorageFault, Throttled
from turnstile.store.core.limits import Limits
from turnstile.store.core.names import published_path
from turnstile.store.core.opaque import seal

PARENT = "/v1/catalogs/main/namespaces/sales"


def transaction(site: Site, commit: dict[str, Any]) -> dict[str, Any]:
    return {"id": NOBODY, "commits": [{"table_id": site.table, "version": 4, **commit}]}


def announcement(site: Site, commit: dict[str, Any]) -> dict[str, Any]:
    return {"commits": transaction(site, commit)["commits"]}


def catalog_announcement(site: Site, commit: dict[str, Any], namespace: str = "eu") -> dict[str, Any]:
    return {**announcement(site, commit), "changes": [{"change": "create_namespace", "name": namespace}]}


def catalog_transaction(site: Site, **more: Any) -> dict[str, Any]:
    """A table that is registered, and a commit of another."""
    new = {"change": "create_table", "namespace": "sales", "name": "new", "table_id": site.stage("new")}
    commit = {"inline": {"content": delta.append("t4", site.now()).decode()}}
    return {**transaction(site, commit), "changes": [new], **more}


def findings(site: Site) -> dict[str, Any]:
    """Findings about a table that the branch changed."""
    path = site.path(operations()["loadTable"]).replace("/main/", "/main@dev/")
    own = site.ask("loadTable", path=path).json["table_id"]
    body = {"version": 4, "inline": {"content": delta.append("t4", site.now()).decode()}}
    site.ask("commit", body, path=f"/v1/tables/{own}/commits")
    finding = {"table": "sales.orders", "expectation": "size", "text": "row_count > 0", "rows": 1}
    return {"state": site.ask("diffBranch").json["state"], "findings": [finding]}


def dropped(site: Site) -> dict[str, Any]:
    """The body that brings back the table that the request's path names, which is dropped."""
    site.ask("dropTable")
    return {}


GOOD: dict[str, Callable[[Site], Any]] = {
    "commit": lambda site: {"version": 4, "inline": {"content": delta.append("t4", site.now()).decode()}},
    "transact": lambda site: transaction(site, {"inline": {"content": delta.append("t4", site.now()).decode()}}),
    "announceTransaction": lambda site: announcement(site, A_COMMIT),
    "transactCatalog": catalog_transaction,
    "announceCatalogTransaction": lambda site: catalog_announcement(site, A_COMMIT),
    "reserveTables": lambda site: {"tables": [site.table]},
    "takeCut": lambda site: {"tables": [site.table]},
    "createCatalog": lambda site: {"name": "other"},
    "createNamespace": lambda site: {"name": "hr", "comment": "people", "properties": {"a": "b"}},
    "updateNamespace": lambda site: {"comment": None, "set": {"a": "b"}, "unset": ["c"]},
    "renameNamespace": lambda site: {"name": "trade"},
    "stageTable": lambda site: {"name": "new"},
    "registerTable": lambda site: {"name": "new", "table_id": site.stage("new")},
    "renameTable": lambda site: {"name": "renamed"},
    "undropTable": dropped,
    "importTable": lambda site: {"name": "loose", "location": site.loose_table("loose")},
    "exportTable": lambda site: {},
    "changeRights": lambda site: {"changes": [{"principal": "ann", "add": ["SELECT"]}], "owner": "bob"},
    "createSnapshot": lambda site: {"name": "other", "comment": "before the move"},
    "createBranch": lambda site: {"name": "test", "from": {"snapshot": "named"}, "days": 3},
    "renewBranch": lambda site: {"days": 60},
    "recordBranchChecks": findings,
    "promoteBranch": lambda site: {},
    "resetCatalog": lambda site: {"to": {"snapshot": "named"}},
    "clone": lambda site: {"from": "sales", "to": "sales_dev"},
    "createRef": lambda site: {"name": "other", "value": "a", "request_id": "r1"},
    "swapRef": lambda site: {"token": site.token, "value": "b"},
    "collect": lambda site: {},
    "holdVersions": lambda site: {"version": 1, "holder": "stream"},
    "announceVacuum": lambda site: {},
    "changeCatalogPolicy": lambda site: {"set": {"enabled": "true"}, "unset": ["windows"]},
    "changeNamespacePolicy": lambda site: {"set": {"enabled": "true"}},
    "changeTablePolicy": lambda site: {"set": {"enabled": "true", "vacuum": "true"}},
    "planScan": lambda site: {"predicate": "id < 5"},
    "judgeReads": lambda site: {"after": 0, "predicates": ["id < 5", ""]},
    "beginRun": lambda site: {},
    "updateRun": lambda site: {"outcome": "stopped", "version": 1},
    "appendRows": lambda site: [{"id": 1}, {"id": None}],
    "appendRowsByName": lambda site: {"id": 1},
}
"""Bodies of requests that succeed."""

QUERY: dict[str, Callable[[Site], dict[str, Any]]] = {
    "outcome": lambda site: {"txn_id": "t1"},
    "find": lambda site: {"query": "/main/sales/*"},
    "findFiles": lambda site: {"query": "/main/sales/orders/files[size >= 0]"},
    "readEvents": lambda site: {"catalog": "main"},
    "deleteRef": lambda site: {"token": site.token},
}
"""Queries that a request needs to succeed."""

SUCCESS = {one.id: min(one.responses) for one in operations().values()}


def good(site: Site, id: str, **options: Any) -> Answer:
    """The operation's request that succeeds if nothing is in its way."""
    if id in ("showTransaction", "resumeTransaction", "abortTransaction"):
        announced(site)
    if id == "resumeCatalogTransaction":
        announced_of_catalog(site)
    body = GOOD[id](site) if id in GOOD else None
    if id in QUERY:
        options.setdefault("query", QUERY[id](site))
    if id == "dropNamespace":
        options.setdefault("query", {"cascade": "true"})
    return site.ask(id, body, **options)


def broken(error: Exception, *, writes_only: bool = False) -> Callable[[Site, str], Answer]:
    """The request that would succeed, while the store fails with ``error``."""

    def drive(site: Site, id: str) -> Answer:
        body = GOOD[id](site) if id in GOOD else None
        query = {"cascade": "true"} if id == "dropNamespace" else QUERY[id](site) if id in QUERY else ""

        def fail(*_: Any, **__: Any) -> Any:
            raise error

        for name in ("write", "transact", *(() if writes_only else ("read", "read_many", "read_cut", "scan"))):
            setattr(site.world.refs, name, fail)
        return site.ask(id, body, query=query)

    return drive


def storage_away(site: Site, id: str) -> Answer:
    body = GOOD[id](site) if id in GOOD else None
    if id == "commit":
        body = {"version": 4, "staged": {"name": f"{4:020d}.a.json", "size": 5}}
    if id == "transact":
        body = transaction(site, {"staged": {"name": f"{4:020d}.a.json", "size": 5}})
    if id in ("importTable", "exportTable"):
        body = {**(body or {}), "dry_run": False}

    def fail(location: str) -> Any:
        raise StorageFault("the bucket cannot be reached", remedy="try again later")

    site.world.storages.open = fail  # type: ignore[method-assign]
    return site.ask(id, body, query=QUERY[id](site) if id in QUERY else "")


def too_large(site: Site, id: str) -> Answer:
    return site.ask(id, body=" " * (MAX_BODY + 1))


def not_json(site: Site, id: str) -> Answer:
    return site.ask(id, body="{}", headers={"Content-Type": "text/plain"})


def key_of_another(site: Site, id: str) -> Answer:
    headers = {"Idempotency-Key": NOBODY}
    site.ask("createCatalog", {"name": "first"}, headers=headers)
    site.ask("updateNamespace", {"comment": "first"}, headers=headers)
    return good(site, id, headers=headers)


def without_token(site: Site, id: str) -> Answer:
    app = Function(operations()[id].function, TURNSTILE_TOKEN="s3cret")
    app.use_world(site.world)
    return good(site, id, http=Http(app.app))


def without_right(site: Site, id: str) -> Answer:
    return good(site, id, http=mallory(site, operations()[id].function))


def mallory(site: Site, function: str) -> Http:
    """A principal without any grant."""
    token = {hashlib.sha256(b"mallory").hexdigest(): {"name": "mallory"}}
    app = Function(function, TURNSTILE_AUTHENTICATION="required", TURNSTILE_TOKENS=json.dumps(token))
    app.use_world(site.world)
    return Http(app.app, "mallory")


def bad_request(site: Site, id: str) -> Answer:
    one = operations()[id]
    return site.ask(id, {"typo": 1}) if one.body else site.ask(id, query="typo=1&start_version=x")


def not_found(site: Site, id: str) -> Answer:
    one = operations()[id]
    path = one.path.replace("{table_id}", NOBODY).replace("{transaction_id}", NOBODY).replace("{holder}", "stream")
    path = path.replace("{reservation_id}", NOBODY)
    path = path.replace("{attempt}", "1")
    for name in ("catalog", "namespace", "table", "name", "snapshot", "branch"):
        path = path.replace("{" + name + "}", "nope")
    path = path.replace("{securable_type}", "table").replace("{full_name}", "main.nope.nope")
    body = GOOD[id](site) if id in GOOD else None
    query = QUERY[id](site) if id in QUERY else ""
    if id in ("find", "findFiles"):
        query = {"query": "/nope/*" if id == "find" else "/nope/*/*/files[size >= 0]"}
    return site.ask(id, body, path=path, query=query)


def refused_change(site: Site) -> Answer:
    taken = {"change": "create_namespace", "name": "sales"}
    return site.ask("transactCatalog", catalog_transaction(site, changes=[taken]))


def another_transaction(site: Site) -> Answer:
    refused_change(site)
    return good(site, "transactCatalog")


def done_and_not_shown(site: Site) -> Answer:
    body = catalog_transaction(site)
    site.ask("transactCatalog", body)
    del site.world.refs.rows[site.world.space.table(site.table)]
    return site.ask("transactCatalog", body)


def recovering(site: Site, id: str) -> Answer:
    site.set(state="recovering")
    return good(site, id)


def with_no_room(site: Site) -> Answer:
    """As if its schema took megabytes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("turnstile.api.http.handler.RESPONSE_BYTES_MAX", 1_000)
        return good(site, "loadTable")


def name_taken(site: Site) -> Answer:
    site.register("taken", site.stage("taken"))
    return site.ask("renameTable", {"name": "taken"})


def undropped_over_another(site: Site) -> Answer:
    body = dropped(site)
    site.register("orders", site.stage("orders"))
    return site.ask("undropTable", body)


def snapshot_expired(site: Site) -> Answer:
    """The look at an Iceberg table's files began at a snapshot that is gone."""
    iceberg_table(build(site.world, lake_root="file:///lake", limits=Limits()), "sales.ice")
    path = site.path(operations()["verifyFiles"]).replace("/orders/", "/ice/")
    return site.ask("verifyFiles", path=path, query={"after": "5.0.0"})


def leaving_is_not_possible(site: Site) -> Answer:
    site.set(state="recovering")
    return site.ask("exportTable", {"dry_run": False})


def importing(site: Site, *, name: str = "loose", path: str = "") -> Answer:
    return site.ask("importTable", {"name": name, "location": site.loose_table("loose"), "dry_run": False}, path)


def after_publication(drive: Callable[[Site, str], Answer], id: str) -> Callable[[Site], Answer]:
    def prepared(site: Site) -> Answer:
        site.ask("publish")
        return drive(site, id)

    return prepared


def announced(site: Site, commit: dict[str, Any] | None = None) -> Answer:
    content = {"inline": {"content": delta.append("announced", site.now()).decode()}}
    return site.ask("announceTransaction", announcement(site, commit or content))


def announced_of_catalog(site: Site, commit: dict[str, Any] | None = None, namespace: str = "eu") -> Answer:
    content = {"inline": {"content": delta.append("announced", site.now()).decode()}}
    return site.ask("announceCatalogTransaction", catalog_announcement(site, commit or content, namespace))


def announced_again_after_an_abort(site: Site) -> Answer:
    announced_of_catalog(site)
    site.ask("abortTransaction")
    return announced_of_catalog(site)


def resumed_what_cannot_be(site: Site) -> Answer:
    announced_of_catalog(site, namespace="sales")
    return site.ask("resumeCatalogTransaction")


def resumed_in_catalog_without_storage(site: Site) -> Answer:
    announced_of_catalog(site, {"staged": {"name": f"{4:020d}.a.json", "size": 5}})
    return storage_away(site, "resumeCatalogTransaction")


def after(site: Site, *ids: str) -> Answer:
    """The answer to the last of these operations on an announced transaction."""
    announced(site)
    return [site.ask(id, announcement(site, A_COMMIT) if operations()[id].body else None) for id in ids][-1]


def resumed_without_storage(site: Site) -> Answer:
    announced(site, {"staged": {"name": f"{4:020d}.a.json", "size": 5}})
    return storage_away(site, "resumeTransaction")


def other_rows(site: Site, id: str) -> Answer:
    producer = {"Turnstile-Producer": "sensors", "Turnstile-Sequence": "7"}
    assert good(site, id, headers=producer).json["outcome"] == "added"
    assert good(site, id, headers=producer).json["outcome"] == "replayed"
    return site.ask(id, [{"id": 9}], headers=producer)


def rows_too_large(site: Site, id: str) -> Answer:
    return site.ask(id, body=" " * (rows.BODIES.bytes + 1))


def gc_runs(site: Site) -> Answer:
    Tasks(site.world).begin(TASK, 60_000)
    return site.ask("collect", {"dry_run": False})


def moved(site: Site, id: str) -> Answer:
    site.ask("swapRef", {"token": site.token, "value": "first"})
    return good(site, id)


def chosen_from_other_sides(site: Site) -> Answer:
    site.world.storages.files[f"{site.head()['location']}/{published_path(2)}"] = (b"foreign", 1)
    return site.ask("repair", {"adopt": {"side": "log", "version": 3}})


def reset_over_a_purge(site: Site) -> Answer:
    site.ask("dropTable")
    site.set(reason="purging")
    return good(site, "resetCatalog")


def dropped_while_recovering(site: Site) -> Answer:
    """A drop of a branch with a table that is being recovered."""
    path = site.path(operations()["loadTable"]).replace("/main/", "/main@dev/")
    own = site.ask("loadTable", path=path).json["table_id"]
    site.world.refs.rows[site.world.space.table(own)]["state"] = "recovering"
    return site.ask("dropBranch")


def over_another(operation: str, site: Site) -> Answer:
    """A promotion, or an update, of a branch with a namespace that the catalog got, too."""
    for catalog in ("main", "main@dev"):
        site.ask("createNamespace", {"name": "both"}, path=f"/v1/catalogs/{catalog}/namespaces")
    return good(site, operation)


def with_hold(drive: Callable[[Site, str], Answer], site: Site, id: str) -> Answer:
    """Does the work of ``drive`` while a reader is registered."""
    good(site, "holdVersions")
    return drive(site, id)


def released_from_a_location_of_another(site: Site) -> Answer:
    good(site, "holdVersions")
    site.world.refs.rows[site.world.space.location(site.head()["location"])]["table_id"] = NOBODY
    return good(site, "releaseVersions")


def with_run(drive: Callable[[Site, str], Answer], site: Site, id: str) -> Answer:
    """Does the work of ``drive`` on a table on which work is due, and for ``updateRun`` is under
    way."""
    good(site, "changeTablePolicy")
    if id == "updateRun":
        assert good(site, "beginRun").json["outcome"] == "begun"
    return drive(site, id)


def old_cursor(site: Site) -> Answer:
    cursor = seal(Place("main", "an earlier log", 0, 0))
    return site.ask("readEvents", query={"catalog": "main", "after": cursor})


def old_cursor_of_the_fleet(site: Site) -> Answer:
    assert FleetLog(site.world).append([fleet_event("1", FleetChange(JOINED, "m1"), "m1", {"m1": "host"}, 1)])
    return site.ask("readFleetEvents", query={"after": seal(Place(FLEET, "an earlier log", 0, 0))})


def sampled(site: Site) -> Answer:
    """The rows of a version whose files are there."""
    return site.ask("sampleTable", query={"version": 0})


def followed(site: Site) -> Answer:
    appender = Appender(site.world)
    appender.append(list(behind(site.world, appender)))
    answer = good(site, "readEvents")
    assert len(answer.json["events"]) > 5
    return answer


EVERYWHERE: dict[int, Callable[[Site, str], Answer]] = {
    400: bad_request,
    401: without_token,
    403: without_right,
    404: not_found,
    413: too_large,
    415: not_json,
    422: key_of_another,
    429: broken(Throttled(retry_after_ms=100)),
    500: broken(RuntimeError("a defect")),
    503: storage_away,
}

ROWS = ("appendRows", "appendRowsByName")
A_COMMIT = {"inline": {"content": delta.append("late", 1).decode()}}

SPECIAL: dict[tuple[str, int], Callable[[Site], Answer]] = {
    ("commit", 409): lambda site: site.append(2, "late"),
    ("commit", 500): lambda site: broken(OutcomeUnknown("lost"), writes_only=True)(site, "commit"),
    ("transact", 404): lambda site: site.ask("transact", transaction(site, {**A_COMMIT, "table_id": NOBODY})),
    ("transact", 409): lambda site: site.ask("transact", transaction(site, {**A_COMMIT, "version": 2})),
    ("transact", 500): lambda site: broken(OutcomeUnknown("lost"), writes_only=True)(site, "transact"),
    ("announceTransaction", 404): lambda site: site.ask(
        "announceTransaction", announcement(site, {**A_COMMIT, "table_id": NOBODY}), http=mallory(site, "commit")
    ),
    ("announceTransaction", 409): lambda site: after(site, "abortTransaction", "announceTransaction"),
    ("announceTransaction", 500): lambda site: broken(OutcomeUnknown("lost"), writes_only=True)(
        site, "announceTransaction"
    ),
    ("abortTransaction", 409): lambda site: after(site, "resumeTransaction", "abortTransaction"),
    ("resumeTransaction", 409): lambda site: after(site, "abortTransaction", "resumeTransaction"),
    ("resumeTransaction", 503): resumed_without_storage,
    ("announceCatalogTransaction", 409): announced_again_after_an_abort,
    ("announceCatalogTransaction", 500): lambda site: broken(OutcomeUnknown("lost"), writes_only=True)(
        site, "announceCatalogTransaction"
    ),
    ("resumeCatalogTransaction", 409): resumed_what_cannot_be,
    ("resumeCatalogTransaction", 503): resumed_in_catalog_without_storage,
    ("transactCatalog", 409): refused_change,
    ("transactCatalog", 422): another_transaction,
    ("transactCatalog", 500): done_and_not_shown,
    ("takeCut", 404): lambda site: site.ask("takeCut", {"tables": [site.table, "main.sales.nope"]}),
    ("reserveTables", 404): lambda site: site.ask("reserveTables", {"tables": [NOBODY]}),
    ("reserveTables", 409): lambda site: recovering(site, "reserveTables"),
    ("takeCut", 409): lambda site: recovering(site, "takeCut"),
    ("takeCut", 503): lambda site: broken(StorageFault("no answer", remedy="try again later"))(site, "takeCut"),
    ("listCommits", 409): lambda site: recovering(site, "listCommits"),
    ("loadTable", 409): lambda site: recovering(site, "loadTable"),
    ("loadTable", 413): with_no_room,
    ("dropTable", 409): lambda site: recovering(site, "dropTable"),
    ("renameNamespace", 409): lambda site: recovering(site, "renameNamespace"),
    ("renameTable", 409): name_taken,
    ("undropTable", 409): undropped_over_another,
    ("undropTable", 503): lambda site: broken(StorageFault("no answer", remedy="try again later"))(site, "undropTable"),
    ("createCatalog", 409): lambda site: site.ask("createCatalog", {"name": "MAIN"}),
    ("createNamespace", 409): lambda site: site.ask("createNamespace", {"name": "Sales"}),
    ("dropNamespace", 409): lambda site: site.ask("dropNamespace"),
    ("stageTable", 409): lambda site: site.ask("stageTable", {"name": "Orders"}),
    ("registerTable", 409): lambda site: site.register("orders", site.stage("other")),
    ("createSnapshot", 409): lambda site: site.ask("createSnapshot", {"name": "NAMED"}),
    ("createBranch", 409): lambda site: site.ask("createBranch", {"name": "DEV"}),
    ("dropBranch", 409): dropped_while_recovering,
    ("recordBranchChecks", 409): lambda site: site.ask("recordBranchChecks", {**findings(site), "state": "of before"}),
    ("promoteBranch", 409): partial(over_another, "promoteBranch"),
    ("updateBranch", 409): partial(over_another, "updateBranch"),
    ("resetCatalog", 409): reset_over_a_purge,
    ("clone", 409): lambda site: recovering(site, "clone"),
    ("createRef", 409): lambda site: site.ask("createRef", {"name": "app", "value": "a"}),
    ("swapRef", 409): lambda site: moved(site, "swapRef"),
    ("deleteRef", 409): lambda site: moved(site, "deleteRef"),
    ("collect", 409): gc_runs,
    **{(id, 409): lambda site, one=id: recovering(site, one) for id in ("listPins", "holdVersions", "announceVacuum")},
    ("releaseVersions", 409): released_from_a_location_of_another,
    **{(id, 500): lambda site, one=id: with_hold(broken(OutcomeUnknown("lost"), writes_only=True), site, one) for id in
       ("holdVersions", "releaseVersions", "announceVacuum")},
    ("releaseVersions", 429): lambda site: with_hold(broken(Throttled(retry_after_ms=100)), site, "releaseVersions"),
    ("importTable", 201): importing,
    ("importTable", 404): lambda site: importing(site, path="/v1/catalogs/main/namespaces/nope/imports"),
    ("importTable", 409): lambda site: importing(site, name="orders"),
    ("repair", 409): chosen_from_other_sides,
    ("repair", 503): lambda site: broken(StorageFault("refs is away"))(site, "repair"),
    ("updateRun", 200): lambda site: with_run(good, site, "updateRun"),
    ("beginRun", 503): lambda site: with_run(storage_away, site, "beginRun"),
    ("changeTablePolicy", 409): lambda site: recovering(site, "changeTablePolicy"),
    **{(id, 409): lambda site, one=id: recovering(site, one) for id in
       ("planScan", "judgeReads", "describeTable", "sampleTable")},
    ("updateRun", 409): lambda site: good(site, "updateRun"),
    **{(id, 500): lambda site, one=id: with_run(broken(OutcomeUnknown("lost"), writes_only=True), site, one) for id in
       ("beginRun", "updateRun")},
    **{(id, 409): lambda site, one=id: recovering(site, one) for id in ROWS},
    **{(id, 413): lambda site, one=id: rows_too_large(site, one) for id in ROWS},
    **{(id, 422): lambda site, one=id: other_rows(site, one) for id in ROWS},
    **{(id, 500): lambda site, one=id: broken(OutcomeUnknown("lost"), writes_only=True)(site, one) for id in ROWS},
    ("sampleTable", 200): sampled,
    ("readEvents", 200): followed,
    ("readEvents", 404): lambda site: site.ask("readEvents", query={"catalog": "nope"}),
    ("readEvents", 410): old_cursor,
    ("readFleetEvents", 410): old_cursor_of_the_fleet,
    ("exportTable", 503): after_publication(storage_away, "exportTable"),
    ("exportTable", 409): leaving_is_not_possible,
    ("verifyFiles", 409): snapshot_expired,
}  # fmt: skip

PAIRS = [(one.id, status) for one in operations().values() for status in one.responses]


@pytest.mark.parametrize(("id", "status"), PAIRS, ids=[f"{id} {status}" for id, status in PAIRS])
def test_every_documented_answer_is_given_and_looks_as_described(id: str, status: int) -> None:
    site = Site()
    if (id, status) in SPECIAL:
        answer = SPECIAL[id, status](site)
    elif status == SUCCESS[id]:
        answer = good(site, id)
    else:
        answer = EVERYWHERE[status](site, id)
    assert answer.status == status, answer.text
