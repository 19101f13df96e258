"""Logs of a branch's tables by a function of their own, which the functions without pyarrow invoke
(ADR 85)."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from typing import Any

import botocore.session
import pytest
from botocore.exceptions import ClientError, EndpointConnectionError, ReadTimeoutError
from botocore.response import StreamingBody
from botocore.stub import Stubber

from tests.support.fakes import delta
from tests.support.functions import Http, function
from tests.support.repository import ROOT
from tests.support.v1 import DEFAULT, NAMESPACES, CatalogApi, PlansApi, refused
from turnstile.adapters import opening
from turnstile.adapters.branch_tables import ANSWER_S, OwnTableRequest
from turnstile.api.iceberg.errors import DELTA_PREFIX
from turnstile.delta.log import parquet
from turnstile.store.core.errors import (
    ErrorType,
    MissingBucket,
    NewerFormat,
    NotFound,
    OutcomeUnknown,
    StateConflict,
    StorageFault,
    StoreCause,
    StoreUnavailable,
    Throttled,
    TurnstileError,
    UnreadableRow,
    UnsupportedTable,
    error_of,
    record_of,
)
from turnstile_local.deployment import read_template

BRANCHES = "/v1/catalogs/main/branches"
DEV = "/v1/catalogs/main@dev/namespaces/default/tables"
B = "/api/2.1/unity-catalog"
NAME = "turnstile-BranchesFunction"


class Lambda:
    """Lambda's client. It invokes the function, or does what ``instead`` does."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []
        self.instead: Callable[[], dict[str, Any]] | None = None

    def invoke(self, **request: Any) -> dict[str, Any]:
        self.sent.append(request)
        return self.instead() if self.instead is not None else self.run()

    def run(self) -> dict[str, Any]:
        answer = function("branches").handle(json.loads(self.sent[-1]["Payload"]), None)
        return {"StatusCode": 200, "Payload": io.BytesIO(json.dumps(answer).encode())}

    def raises(self, error: Exception) -> None:
        def fail() -> dict[str, Any]:
            raise error

        self.instead = fail


class Site(PlansApi):
    """The functions as they are deployed, with the table ``t`` of two versions, and a branch of the
    first of them."""

    def __init__(self, api: CatalogApi) -> None:
        super().__init__(api)
        for name in ("commit", "catalog", "iceberg", "ingest"):
            function(name).use_world(api.world, branches_function=NAME)
        self.id = self.create("t")["table_id"]
        self.add_files(self.id, delta.add("a.parquet"))
        assert self.http.post(BRANCHES, {"name": "dev"}).status == 201
        self.add_files(self.id, delta.add("b.parquet"))


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Lambda:
    made = Lambda()
    monkeypatch.setattr(opening, "answering_functions", lambda read_s: made)
    return made


@pytest.fixture
def site(api: CatalogApi, client: Lambda) -> Site:
    return Site(api)


def test_i28_the_first_use_of_a_branchs_table_invokes_the_function_once(site: Site, client: Lambda) -> None:
    loaded = site.commits.get(f"{DEV}/t")
    assert loaded.status == 200, loaded.text
    assert (loaded.json["latest"], loaded.json["table_id"] == site.id) == (1, False)
    assert "/_branches/" in loaded.json["location"]
    (sent,) = client.sent
    assert (sent["FunctionName"], sent["InvocationType"]) == (NAME, "RequestResponse")
    assert json.loads(sent["Payload"]) == {"turnstile": "own table", "catalog": "main@dev", "path": ["default", "t"]}
    site.add_files(loaded.json["table_id"], delta.add("c.parquet"))
    assert site.commits.get(f"{DEV}/t").json["latest"] == 2
    assert site.http.get(f"{B}/tables/main@dev.default.t").json["table_id"] == loaded.json["table_id"]
    assert len(client.sent) == 1


def test_i28_the_catalog_function_invokes_it_too_and_a_promotion_needs_no_other_function(
    site: Site, client: Lambda
) -> None:
    shown = site.http.get(f"{B}/tables/main@dev.default.t")
    assert shown.status == 200, shown.text
    site.add_files(shown.json["table_id"], delta.add("c.parquet"), isBlindAppend=True)
    promoted = site.http.post(f"{BRANCHES}/dev/promote", {})
    assert promoted.status == 200, promoted.text
    assert len(client.sent) == 1


def test_i28_a_scan_of_a_branchs_delta_table_as_an_iceberg_one_is_of_its_base(site: Site, client: Lambda) -> None:
    iceberg = Http(function("iceberg").app)
    path = f"{DELTA_PREFIX}/v1/main@dev/namespaces/default/tables/t/plan"
    answer = iceberg.post(path, {"snapshot-id": 0, "case-sensitive": False, "use-snapshot-schema": False})
    assert answer.status == 200, answer.text
    files = [task["data-file"]["file-path"] for task in answer.json["file-scan-tasks"]]
    assert [file.rpartition("/")[2] for file in files] == ["a.parquet"]
    assert len(client.sent) == 1


def test_work_on_tables_of_the_catalog_costs_no_request_more_than_without_the_function(
    site: Site, client: Lambda
) -> None:
    def requests() -> list[str]:
        site.world.refs.requests.clear()
        site.commits.get(f"{DEFAULT}/tables/t")
        site.add_files(site.id, delta.add("d.parquet"))
        site.http.get(f"{B}/tables/main.default.t")
        return list(site.world.refs.requests)

    requests()
    with_function = requests()
    for name in ("commit", "catalog"):
        function(name).use_world(site.world)
    requests()
    assert with_function == requests()
    assert client.sent == []


def test_an_external_table_of_a_branch_invokes_nothing(site: Site, client: Lambda) -> None:
    external = {
        "name": "e", "catalog_name": "main", "schema_name": "default", "table_type": "EXTERNAL",
        "data_source_format": "DELTA", "columns": [], "storage_location": "s3://other/e",
    }  # fmt: skip
    assert site.http.post(f"{B}/tables", external).status == 200
    assert site.http.post(BRANCHES, {"name": "later"}).status == 201
    assert site.http.get(f"{B}/tables/main@later.default.e").status == 200
    assert client.sent == []


def test_a_lost_answer_is_one_to_ask_for_again_and_the_table_has_its_log_then(site: Site, client: Lambda) -> None:
    def lost() -> dict[str, Any]:
        client.run()
        raise ReadTimeoutError(endpoint_url="lambda")

    client.instead = lost
    answer = site.commits.get(f"{DEV}/t")
    error = refused(answer, 429, "Throttled")
    assert "'main@dev.default.t' gets a log of its own" in error["message"] and answer.headers["retry-after"]
    again = site.commits.get(f"{DEV}/t")
    assert (again.status, again.json["latest"], len(client.sent)) == (200, 1, 1)


@pytest.mark.parametrize(
    ("failure", "type", "said"),
    [
        (ClientError({"Error": {"Code": "TooManyRequestsException"}}, "Invoke"), "Throttled", "TooManyRequests"),
        (ClientError({"Error": {"Code": "AccessDeniedException"}}, "Invoke"), "StorageFault", "AccessDenied"),
        (EndpointConnectionError(endpoint_url="lambda"), "StorageFault", "EndpointConnectionError"),
    ],
)
def test_a_function_that_cannot_be_invoked_is_named_and_nothing_happens(
    site: Site, client: Lambda, failure: Exception, type: str, said: str
) -> None:
    rows = dict(site.world.refs.rows)
    client.raises(failure)
    assert said in refused(site.commits.get(f"{DEV}/t"), 429 if type == "Throttled" else 503, type)["message"]
    assert site.world.refs.rows == rows


def test_a_function_that_fails_is_a_fault_and_its_own_errors_are_the_callers(site: Site, client: Lambda) -> None:
    failed = {"FunctionError": "Unhandled", "Payload": io.BytesIO(b'{"errorMessage": "Task timed out"}')}
    client.instead = lambda: failed
    assert "failed (Unhandled)" in refused(site.commits.get(f"{DEV}/t"), 503, "StorageFault")["message"]

    def dropped() -> dict[str, Any]:
        client.instead = None
        assert site.http.delete(f"{DEV}/t").status == 204
        return client.run()

    client.instead = dropped
    refused(site.commits.get(f"{DEV}/t"), 404, "NoSuchTable", "table")


@pytest.mark.parametrize(
    "error",
    [
        NotFound("table", "t", field="table"),
        UnsupportedTable("it has a feature", field="table", remedy="x"),
        StateConflict(ErrorType.CONCURRENT_CHANGE, "loaded", remedy="send it again", retry_after_ms=0),
        StorageFault("s3"),
        MissingBucket("no bucket"),
        StoreUnavailable(StoreCause.UNREACHABLE, "gone"),
        Throttled(retry_after_ms=5),
        OutcomeUnknown("lost"),
        NewerFormat("k", 9, 1),
        UnreadableRow("k", "damaged", effect="no commits"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_of_the_function_is_the_same_one_for_its_caller(error: TurnstileError) -> None:
    told = error_of(json.loads(json.dumps(record_of(error))))
    assert (type(told), vars(told), told.type) == (type(error), {**vars(error), "type": error.type}, error.type)
    assert (str(told), told.public_message) == (str(error), error.public_message)


def test_a_client_cannot_send_what_only_functions_may(site: Site) -> None:
    body = {"turnstile": "own table", "catalog": "main@dev", "path": ["default", "t"]}
    handler = function("branches").handle
    assert Http(handler).post(f"{BRANCHES}/dev/promote", body).status == 400
    assert Http(handler).post("/", body, headers={"turnstile": "own table"}).status == 404
    assert site.http.get(f"{NAMESPACES}/default/tables").status == 200


def test_a_server_without_pyarrow_says_so(api: CatalogApi, monkeypatch: pytest.MonkeyPatch) -> None:
    site = PlansApi(api)
    site.create("t")
    assert site.http.post(BRANCHES, {"name": "dev"}).status == 201
    monkeypatch.setattr(parquet, "has_parquet", lambda: False)
    assert "pyarrow" in refused(site.commits.get(f"{DEV}/t"), 400, "UnsupportedTable", "table")["remedy"]


def test_lambda_knows_the_request_and_the_one_who_waits_has_the_time() -> None:
    session = botocore.session.get_session()
    sent = session.create_client("lambda", "us-east-1", aws_access_key_id="k", aws_secret_access_key="s")
    request = {"FunctionName": NAME, "InvocationType": "RequestResponse", "Payload": b"{}"}
    with Stubber(sent) as stub:
        stub.add_response("invoke", {"StatusCode": 200, "Payload": StreamingBody(io.BytesIO(b"{}"), 2)}, request)
        assert sent.invoke(**request)["Payload"].read() == b"{}"
    resources = read_template(ROOT / "template.yaml")["Resources"]
    waiting = [
        each["Properties"]["Timeout"]
        for each in resources.values()
        if "TURNSTILE_BRANCHES_FUNCTION" in str(each.get("Properties", {}).get("Environment"))
    ]
    assert len(waiting) == 5 and min(waiting) >= ANSWER_S + 5
    assert OwnTableRequest("main@dev", ("a", "t")).path == ("a", "t")
