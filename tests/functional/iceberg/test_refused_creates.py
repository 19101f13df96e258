"""A create that is refused for what it says leaves nothing: no location given out, no file."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.functions import Answer
from tests.support.iceberg.client import MAIN, SALES, SCHEMA, VIEW, Iceberg, definition, refused

FIELDS: list[dict[str, Any]] = SCHEMA["fields"]
TWICE = {**SCHEMA, "fields": [FIELDS[0], {**FIELDS[1], "name": "id"}]}
ORDER = {"transform": "identity", "direction": "asc", "null-order": "nulls-first"}


def spec(source: int, transform: str = "identity") -> dict[str, Any]:
    return {"partition-spec": {"fields": [{"source-id": source, "transform": transform, "name": "p"}]}}


TABLES: dict[str, tuple[dict[str, Any], str]] = {
    "schema": ({"schema": TWICE}, "'id' is there twice"),
    "type": ({"schema": {**SCHEMA, "fields": [{**FIELDS[0], "type": "bogus"}]}}, "bogus"),
    "version": ({"properties": {"format-version": "9"}}, "format version '9'"),
    "path": ({"properties": {"write.data.path": "file:///lake/other"}}, "write.data.path"),
    "transform": (spec(1, "bucket[0]"), "bucket[0]"),
    "source": (spec(99), "source column 99 is not in the schema"),
    "lost source": (spec(99, "void"), "source column 99 is not in the schema"),
    "order": ({"write-order": {"order-id": 1, "fields": [{"source-id": 98, **ORDER}]}}, "source column 98"),
}


@pytest.mark.parametrize("wrong", TABLES)
@pytest.mark.parametrize("staged", [False, True])
def test_i10_a_table_that_cannot_be_is_given_no_location(wrong: str, staged: bool) -> None:
    client = Iceberg()
    more, said = TABLES[wrong]
    client.create("first")
    rows = client.heads()
    files = client.files()
    answer = client.post(f"{SALES}/tables", {"name": "t", "schema": SCHEMA, "stage-create": staged, **more})
    assert said in refused(answer, 400, "BadRequestException")
    assert (client.heads(), client.files()) == (rows, files)
    client.create("t")


@pytest.mark.parametrize(
    "more",
    [
        {"schema": TWICE},
        {"view-version": {**VIEW["view-version"], "representations": []}},
        {"properties": {"k": '"' * 900_000, "l": '"' * 900_000}},
    ],
)
def test_i10_neither_is_a_view(more: dict[str, Any]) -> None:
    client = Iceberg()
    client.create("first")
    rows = client.heads()
    files = client.files()
    refused(client.post(f"{SALES}/views", {**VIEW, **more}), 400, "BadRequestException")
    assert (client.heads(), client.files()) == (rows, files)
    assert client.post(f"{SALES}/views", VIEW).status == 200


def test_i10_a_file_that_no_answer_could_carry_is_refused_before_its_location(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    client = Iceberg()
    client.create("first")
    monkeypatch.setattr("turnstile.iceberg.files.MAX_BYTES", 500)
    rows = client.heads()
    files = client.files()
    for path, body in ((f"{SALES}/tables", {"name": "t", "schema": SCHEMA}), (f"{SALES}/views", VIEW)):
        assert "expire snapshots" in refused(client.post(path, body), 400, "BadRequestException")
    assert (client.heads(), client.files()) == (rows, files)


def test_a_token_is_called_as_iceberg_calls_it() -> None:
    client = Iceberg()
    for token in ("x", "é", "A" * 40):
        for path in (f"{SALES}/tables", f"{SALES}/views", f"{MAIN}/namespaces"):
            message = refused(client.get(path, pageToken=token), 400, "BadRequestException")
            assert message.startswith("pageToken is no page token") and "page_token" not in message


NOWHERE = "s3://no-such-bucket/lake/t"


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("tables", {"name": "t", "schema": SCHEMA, "location": NOWHERE}),
        ("views", {**VIEW, "properties": {"write.metadata.path": NOWHERE}}),
        ("register", {"name": "t", "metadata-location": f"{NOWHERE}/metadata/00000-a.metadata.json"}),
        ("register-view", {"name": "t", "metadata-location": f"{NOWHERE}/metadata/00000-a.metadata.json"}),
    ],
)
def test_a_bucket_that_does_not_exist_is_the_requests_fault(path: str, body: dict[str, Any]) -> None:
    client = Iceberg()
    client.create("first")
    client.world.storages.missing = frozenset({"s3://no-such-bucket"})
    rows = client.heads()
    assert "the bucket does not exist" in refused(client.post(f"{SALES}/{path}", body), 400, "BadRequestException")
    assert client.heads() == rows


def test_a_commit_that_creates_a_table_in_no_bucket_is_refused_likewise() -> None:
    client = Iceberg()
    staged = client.post(
        f"{SALES}/tables", {"name": "t", "schema": SCHEMA, "location": NOWHERE, "stage-create": True}
    ).json
    client.world.storages.missing = frozenset({"s3://no-such-bucket"})
    updates = definition(staged["metadata"])
    body = {"requirements": [{"type": "assert-create"}], "updates": updates}
    assert "the bucket does not exist" in refused(client.post(f"{SALES}/tables/t", body), 400, "BadRequestException")


def grown(client: Iceberg) -> Answer:
    """The answer to the first commit that is refused of ten, each with 700 kB of properties
    more."""
    client.create("t1")
    for number in range(10):
        update = {"action": "set-properties", "updates": {f"p{number}": "x" * 700_000}}
        answer = client.commit(update)
        if answer.status != 200:
            break
    return answer


def test_metadata_over_the_limit_of_an_answer_are_refused_with_a_remedy_that_helps() -> None:
    said = refused(grown(Iceberg()), 400, "BadRequestException")
    assert "remove-schemas" in said and "5500000" in said
