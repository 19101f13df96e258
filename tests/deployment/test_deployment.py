"""template.yaml as users deploy it: by SAM's command line, with functions that Lambda's own Python
and runtime client run.

The tests are one story in the order of this file: each leaves the stack as the next finds it, and
the last removes it.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, Self

import httpx
import pyarrow as pa
import pytest
from botocore.exceptions import ClientError
from pyiceberg.catalog.rest import RestCatalog

import turnstile_spark
from tests.support.deployment.deployer import expected, recorded
from tests.support.deployment.stack import LAKE, PARAMETERS, Deployment, errors_in, figures, longest_start_s
from tests.support.iceberg.pyarrow_tables import SCHEMA, ids, rows
from tests.support.repository import ROOT
from tests.support.stack import NAMESPACE, Table, eventually
from turnstile.api.row_batches import REFUSED
from turnstile_client import connect
from turnstile_local.routes import ACCOUNT

pytestmark = [pytest.mark.slow, pytest.mark.spark]

TRIPS: Final = "default.trips"
ORDERS: Final = pa.table({"id": pa.array([1, 2, 3], pa.int64())})
CALLERS: Final = frozenset(
    {"Commit", "Catalog", "Iceberg", "Tokens", "Authorizer", "Plans", "Ingest"}
    | {"Publish", "Events", "Maintain", "Rows", "Sweep", "Collect"}
)
"""Functions that ask something of AWS."""

UNPACKED_MAX: Final = 250 * 1024 * 1024
"""Lambda's limit for a function with its layers, in bytes."""

EXPIRING: Final = {
    "turnstile.maintenance.expire-snapshots": "true",
    "turnstile.maintenance.remove-orphan-files": "true",
    "history.expire.max-snapshot-age-ms": "0",
    "history.expire.min-snapshots-to-keep": "2",
}


def turnstile(stack: Deployment, *words: str) -> Any:
    """Returns the JSON that a command of the installed command line prints."""
    command = [str(Path(sys.executable).with_name("turnstile")), *words, "--url", stack.url, "--token", stack.token]
    done = subprocess.run([*command, "--output", "json"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"
    return json.loads(done.stdout)


def test_the_template_is_valid_for_sam_and_for_cfn_lint(stack: Deployment) -> None:
    template = str(ROOT / "template.yaml")
    assert "is a valid SAM Template" in stack.emulator.sam("validate", "--lint", "--template-file", template)
    stack.emulator.run("sam", ["cfn-lint", template], label="cfn-lint")


def test_the_emulator_loses_no_update_of_a_row_beside_transactions_that_fail(stack: Deployment) -> None:
    rows_of_dynamodb = stack.aws("dynamodb")
    table = {"TableName": "updates-of-one-row"}
    names = {"ExpressionAttributeNames": {"#key": "key"}}
    rows_of_dynamodb.create_table(
        **table, BillingMode="PAY_PER_REQUEST", KeySchema=[{"AttributeName": "key", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "key", "AttributeType": "S"}],
    )  # fmt: skip
    key = {"Key": {"key": {"S": "row"}}}
    absent = {"Key": {"key": {"S": "absent"}}, "ConditionExpression": "attribute_exists(#key)"}

    def update() -> None:
        one = {":one": {"N": "1"}}
        rows_of_dynamodb.update_item(**table, **key, UpdateExpression="ADD n :one", ExpressionAttributeValues=one)

    def fail() -> None:
        with pytest.raises(rows_of_dynamodb.exceptions.TransactionCanceledException):
            rows_of_dynamodb.transact_write_items(TransactItems=[{"ConditionCheck": table | absent | names}])

    with ThreadPoolExecutor(8) as pool:
        for request in [pool.submit(work) for _ in range(200) for work in (update, fail)]:
            request.result()
    assert rows_of_dynamodb.get_item(**table, **key)["Item"]["n"] == {"N": "200"}
    rows_of_dynamodb.delete_table(**table)


def test_a_function_with_both_layers_fits_into_what_lambda_takes(stack: Deployment) -> None:
    sizes = {
        folder.name: sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
        for folder in stack.emulator.built.iterdir()
    }
    layers = {name: size for name, size in sizes.items() if name.endswith("Layer")}
    print(layers)
    assert len(layers) == 2
    assert max(size for name, size in sizes.items() if name not in layers) + sum(layers.values()) < UNPACKED_MAX


def test_the_deployed_service_says_its_version_and_asks_for_a_token(stack: Deployment) -> None:
    with stack.client() as api:
        assert api.get("/v1").json()["version"] == stack.emulator.version
        assert api.get("/v1/catalogs", headers={"authorization": ""}).status_code == 401
        assert api.get("/v1/catalogs", headers={"authorization": "Bearer another"}).status_code in (401, 403)


def test_a_client_gets_a_token_that_the_authorizer_accepts(stack: Deployment) -> None:
    with stack.client() as api:
        client = api.post("/v1/clients", json={"name": "etl", "admin": True}).json()
    credentials = (client["client_id"], client["client_secret"])
    form = {"grant_type": "client_credentials"}
    issued = httpx.post(f"{stack.url}/oauth/token", data=form, auth=credentials, trust_env=False, timeout=60).json()
    header = f"Bearer {issued['access_token']}"
    with stack.client() as api:
        assert api.get("/v1/clients", headers={"authorization": header}).status_code == 200
    # LocalEmu's API asks no authorizer, so it is asked as API Gateway asks it.
    told, untold = (stack.invoke("AuthorizerFunction", {"identitySource": [one]}) for one in (header, "Bearer another"))
    assert told["context"] and not untold["context"]


def test_commits_are_published_from_the_stream_and_become_events(stack: Deployment) -> None:
    table = Table(stack)  # type: ignore[arg-type]
    assert table.append(1)["commit"]["kind"] == "inline"
    assert table.stage(2)["commit"]["kind"] == "staged"
    assert table.published(2)
    assert eventually(lambda: table.get("head")["floor"] == 2)

    def told() -> bool:
        events = table.ask("GET", "/v1/events?catalog=main")["events"]
        return any(table.id in json.dumps(event) for event in events)

    assert eventually(told)


def test_plain_python_appends_and_reads(stack: Deployment) -> None:
    with connect(stack.url, stack.token, s3=stack.s3) as lake:
        table = lake.create("default.orders", ORDERS.schema)
        for _ in range(5):
            table.append(ORDERS)
        assert sorted(table.read()["id"].to_pylist()) == sorted([1, 2, 3] * 5)


def test_rows_over_http_are_added_once(stack: Deployment) -> None:
    rows = f"{NAMESPACE}/tables/readings/rows"
    key = {"idempotency-key": str(uuid.uuid4())}
    with connect(stack.url, stack.token, s3=stack.s3) as lake, stack.client() as api:
        table = lake.create("default.readings", ORDERS.schema)
        answers = [api.post(rows, json=ORDERS.to_pylist(), headers=key) for _ in range(2)]
        assert [answer.json().get("outcome") for answer in answers] == ["added", "replayed"], answers[0].text
        assert sorted(table.read()["id"].to_pylist()) == [1, 2, 3]


def test_rows_of_a_queue_are_added_once_and_bad_ones_are_set_aside(stack: Deployment) -> None:
    granted = {"principal": "rows", "add": ["USE CATALOG", "USE SCHEMA", "MODIFY"], "remove": []}
    with connect(stack.url, stack.token, s3=stack.s3) as lake, stack.client() as api:
        table = lake.create("default.clicks", ORDERS.schema)
        assert api.patch("/v1/permissions/catalog/main", json={"changes": [granted]}).status_code == 200
        sqs = stack.aws("sqs")
        (queue,) = (url for url in sqs.list_queues()["QueueUrls"] if "RowsQueue" in url)
        for id in range(30):
            sqs.send_message(QueueUrl=queue, MessageBody=json.dumps({"id": id}))
        sqs.send_message(QueueUrl=queue, MessageBody="{")
        eventually(lambda: len(table.read()) >= 30, 120, "all rows are in the table")
        s3 = stack.aws("s3")
        kept = f"warehouse/{REFUSED}/"
        eventually(
            lambda: s3.list_objects_v2(Bucket=LAKE, Prefix=kept)["KeyCount"] == 1, 60, "the bad one is set aside"
        )
        assert sorted(table.read().column("id").to_pylist()) == list(range(30))


def test_pyiceberg_creates_appends_and_reads_and_collection_expires_its_snapshots(stack: Deployment) -> None:
    files = {f"s3.{name.replace('_', '-')}": value for name, value in stack.s3.items()}
    files |= {"s3.access-key-id": stack.s3["access_key"], "s3.secret-access-key": stack.s3["secret_key"]}
    catalog = RestCatalog("main", uri=f"{stack.url}/iceberg", warehouse="main", token=stack.token, **files)
    table = catalog.create_table(TRIPS, SCHEMA, properties=EXPIRING)
    for number in range(4):
        table.append(rows(number))
    assert ids(catalog.load_table(TRIPS)) == [0, 1, 2, 3]
    report = stack.invoke("CollectFunction", {})
    assert report["problems"] == [], report
    kept = catalog.load_table(TRIPS)
    assert ids(kept) == [0, 1, 2, 3] and len(kept.metadata.snapshots) == 2


def test_spark_creates_changes_and_compacts_tables_and_commits_two_at_once(stack: Deployment, spark: Any) -> None:
    conf = spark._jsparkSession.sparkContext().hadoopConfiguration()
    settings = {
        "endpoint": stack.s3["endpoint"], "path.style.access": "true", "connection.ssl.enabled": "false",
        "access.key": stack.s3["access_key"], "secret.key": stack.s3["secret_key"],
    }  # fmt: skip
    for name, value in settings.items():
        conf.set(f"fs.s3a.bucket.{LAKE}.{name}", value)
    lake = turnstile_spark.attach(spark, "deployed", stack.url, token=stack.token)
    try:
        for name in ("a", "b"):
            spark.sql(f"CREATE TABLE deployed.default.{name} (id BIGINT, amount BIGINT)")
        for number in range(4):
            spark.sql(f"INSERT INTO deployed.default.a VALUES ({number}, 100)")
        spark.sql("UPDATE deployed.default.a SET amount = 50 WHERE id = 1")
        spark.sql("DELETE FROM deployed.default.a WHERE id = 0")
        with lake.transaction():
            spark.sql("DELETE FROM deployed.default.a WHERE id = 2")
            spark.sql("INSERT INTO deployed.default.b VALUES (2, 100)")
        lake.table("default.a").optimize()
        found = {
            name: sorted(tuple(row) for row in spark.table(f"deployed.default.{name}").collect()) for name in ("a", "b")
        }
        assert found == {"a": [(1, 50), (3, 100)], "b": [(2, 100)]}
    finally:
        lake.detach()


def test_a_scan_is_planned_and_light_work_writes_a_checkpoint(stack: Deployment) -> None:
    with stack.client() as api:
        table = api.get(f"{NAMESPACE}/tables/a").json()
        planned = api.post(f"/v1/tables/{table['table_id']}/plan", json={"predicate": "id = 3"})
        assert planned.status_code == 200 and len(planned.json()["files"]) == 1, planned.text
        assert api.get(f"/v1/tables/{table['table_id']}/maintenance").status_code == 200
    stack.invoke("MaintainFunction", {"full": True})


def test_the_command_line_lists_tables_and_finds_nothing_wrong(stack: Deployment) -> None:
    names = {table["name"] for table in turnstile(stack, "tables")["tables"]}
    assert {"main.default.orders", "main.default.a", "main.default.b"} <= names
    turnstile(stack, "status")
    checks = turnstile(stack, "doctor")["checks"]
    wrong = [check for check in checks if check["result"] == "failed" or check["name"] in ("version", "tables")]
    assert [check for check in wrong if check["result"] != "ok"] == [], checks


def test_the_console_is_served(stack: Deployment) -> None:
    with stack.client() as api:
        page = api.get("/ui", headers={"authorization": ""})
    assert page.status_code == 200 and "<html" in page.text


def test_a_sweep_looks_at_every_table_and_finds_nothing_to_publish(stack: Deployment) -> None:
    report = stack.invoke("SweepFunction", {"full": True})
    assert not report.get("failed"), report


class Load:
    """Appends to a table, one after the other, until it is stopped; an append that is refused is
    sent again."""

    def __init__(self, stack: Deployment) -> None:
        self.table = Table(stack)  # type: ignore[arg-type]
        self.versions: set[str] = set()
        self.appended = 0
        self.refused: list[str] = []
        self.longest_refused_s = 0.0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.is_set():
            began = time.monotonic()
            while refusal := self._refusal(self.appended + 1):
                self.refused.append(refusal)
                self.longest_refused_s = max(self.longest_refused_s, time.monotonic() - began)
                if self._stop.is_set():
                    return
            self.appended += 1

    def _refusal(self, version: int) -> str:
        """Why an append, or a question for the version of the code, was refused; empty if both were
        answered."""
        try:
            answer = self.table.propose(version, txn=f"load-{version}")
            about = self.table.api.get("/v1")
        except httpx.HTTPError as error:
            return repr(error)
        if answer.status_code != 200 or about.status_code != 200:
            return f"{answer.status_code} {answer.text[:300]} {about.status_code}"
        self.versions.add(about.json()["version"])
        return ""


def test_new_code_and_parameters_come_under_load_and_a_refused_append_is_accepted_when_sent_again(
    stack: Deployment,
) -> None:
    new = "9.9.9"
    with Load(stack) as load:
        eventually(lambda: load.appended > 3)
        (stack.emulator.built / "SharedLayer/python/turnstile_release/built.txt").write_text(f"{new}\n")
        stack.update(StagedGraceHours="48")
        eventually(lambda: new in load.versions)
        before = load.appended
        eventually(lambda: load.appended > before + 3, what="appends to the new code")
    cold_s = longest_start_s(stack.emulator.work / "figures.jsonl")
    print(
        f"{load.appended} appends; {len(load.refused)} refused, for {load.longest_refused_s:.1f} s; a cold start: "
        f"{cold_s:.1f} s"
    )
    assert eventually(lambda: load.table.get("head")["floor"] == load.appended), "I11"
    found = stack.aws("lambda").get_function_configuration(FunctionName=stack.function("CollectFunction"))
    assert found["Environment"]["Variables"]["TURNSTILE_STAGED_GRACE_HOURS"] == "48"


def test_no_function_logged_an_error(stack: Deployment) -> None:
    assert errors_in(stack.emulator.work / "logs") == {}
    print("\n".join(figures(stack.emulator.work / "figures.jsonl")))


def test_i12_the_emulator_finds_every_call_of_a_function_allowed_by_its_role(stack: Deployment) -> None:
    """A second judge beside that of tests/functional/deploy/test_recorded_calls.py, by other code
    and of the roles as CloudFormation made them."""
    verdicts = stack.verdicts()
    assert [one for one in verdicts if one["verdict"] != "ALLOW"] == []
    judged = {role: sum(one["role"] == role for one in verdicts) for role in {one["role"] for one in verdicts}}
    print(judged)
    silent = {stack.role(f"{name}Function") for name in (*CALLERS, "Console")} - judged.keys()
    assert silent == {stack.role("ConsoleFunction")}


def test_i12_the_emulator_refuses_a_session_of_a_role_what_the_role_does_not_allow(stack: Deployment) -> None:
    table = {"TableName": stack.function("RefsTable")}
    client = {"Key": {"key": {"S": "default/client/x"}}}
    head = {"Key": {"key": {"S": "default/table/x"}}}
    arn = f"arn:aws:iam::{ACCOUNT}:role/{stack.role('CommitFunction')}"
    with pytest.raises(ClientError, match="AccessDenied"):
        stack.aws("sts").assume_role(RoleArn=arn, RoleSessionName="tests")  # it trusts Lambda alone
    tokens, commit, plans = (stack.session_of(f"{name}Function") for name in ("Tokens", "Commit", "Plans"))
    assert "Item" not in tokens.get_item(**table, **client)
    assert "Item" not in commit.get_item(**table, **head)
    refused = [
        lambda: tokens.get_item(**table, **head),
        lambda: commit.get_item(**table, **client),
        lambda: commit.delete_item(**table, **head),
        lambda: commit.transact_write_items(TransactItems=[{"Delete": table | head}]),
        lambda: plans.put_item(**table, Item=head["Key"]),
        lambda: plans.batch_write_item(RequestItems={table["TableName"]: [{"DeleteRequest": head}]}),
    ]
    for call in refused:
        with pytest.raises(ClientError, match="AccessDenied"):
            call()


def test_sam_deletes_the_stack_and_leaves_the_tables_and_the_lake(stack: Deployment) -> None:
    kept = [stack.function(name) for name in ("RefsTable", "ObjsTable")]
    stack.emulator.sam("delete", "--no-prompts", "--region", "us-east-1")
    assert stack.emulator.stack_status() in (None, "DELETE_COMPLETE")
    assert set(kept) <= set(stack.aws("dynamodb").list_tables()["TableNames"])
    assert stack.aws("s3").list_objects_v2(Bucket=LAKE, MaxKeys=1)["KeyCount"] == 1
    assert PARAMETERS["LakeRoot"].startswith(f"s3://{LAKE}/")
    print({name: f"{seconds:.0f} s" for name, seconds in stack.emulator.seconds.items()})


def test_i12_sam_and_cloudformation_asked_for_what_is_recorded(stack: Deployment) -> None:
    """The deployer's policy is compared with the recording
    (tests/functional/deploy/test_deployer.py)."""
    asked = recorded((stack.emulator.work / "emulator.log").read_text(errors="replace"))
    assert len(asked) >= 30, "the emulator logs what its CloudFormation asks for"
    assert sorted(asked - expected()) == [], "add it to tests/data/deployer_calls.txt, and to the policy"
