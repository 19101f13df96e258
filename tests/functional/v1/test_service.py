"""The service as a whole: what it says of itself, its token, its start."""

from __future__ import annotations

import pytest

from tests.support.fakes.world import fake_world
from tests.support.functions import Function, Http
from tests.support.lake import ORDERS, make_lake


def test_the_service_gives_its_name_and_its_limits() -> None:
    found = make_lake().http.get("/v1").json
    assert found["service"] == "turnstile"
    assert found["version"]
    assert found["limits"] == {
        "inline_bytes": 262_144,
        "staged_bytes": 64 * 1024 * 1024,
        "body_bytes": 1024 * 1024,
        "answer_content_bytes": 1024 * 1024,
    }


def test_i12_with_a_token_no_other_caller_is_answered() -> None:
    app = Function("commit", TURNSTILE_TOKEN="s3cret")
    app.use_world(fake_world())
    paths = ["/v1", f"/v1/tables/{ORDERS}/head", "/v1/catalogs/a/namespaces/b/tables/c", "/nothing"]
    for path in paths:
        assert Http(app.app).get(path).error["type"] == "NotAuthenticated"
        assert Http(app.app, token="wrong").get(path).status == 401
    assert Http(app.app, token="s3cret").get("/v1").status == 200
    unity = Http(app.app).get("/api/2.1/unity-catalog/delta/preview/commits")
    assert (unity.status, unity.json["error_code"]) == (401, "UNAUTHENTICATED")


def test_a_deployment_without_its_tables_fails_at_the_start() -> None:
    with pytest.raises(ValueError, match="TURNSTILE_REFS_TABLE"):
        Function("commit", AWS_LAMBDA_FUNCTION_NAME="commit", TURNSTILE_REFS_TABLE="")


def test_nothing_is_opened_before_it_is_needed_outside_of_lambda() -> None:
    app = Function("commit")
    assert Http(app.app).get("/nothing").status == 404  # no settings are there, and none were asked for
