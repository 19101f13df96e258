"""Actions of follow-ups: what a function and a job run of EMR Serverless get, judged by AWS's own
descriptions of the requests."""

from __future__ import annotations

import io
import json
from typing import Any

import botocore.session
import pytest
from botocore.response import StreamingBody
from botocore.stub import ANY, Stubber

from turnstile.adapters.event_targets import BadTarget, EventBus, Webhook
from turnstile.adapters.follow_up_actions import Function, SparkJob, open_actions
from turnstile.adapters.machine import SystemClock
from turnstile.events.core.cloud_events import CloudEvent
from turnstile.events.deliver import NotDelivered

SECRET = "whsec_" + "A" * 32
ARN = "arn:aws:lambda:us-east-1:123456789012:function:refresh"
ROLE = "arn:aws:iam::123456789012:role/spark"
JOB = (
    f"emr-serverless://00f1abc?role={ROLE}&entry=s3://code/maintain.py"
    "&args=run%20--once%20--table%20{table}%20--catalog%20{catalog}%20%22{first_version}%20{version}%22%20{other}"
    "&spark=--conf%20spark.executor.cores%3D4"
)
EVENT = CloudEvent(
    "t/follow-up/dbt/4-9", "/v1/catalogs/main", "turnstile.table.follow-up", "t",
    {"name": "main.sales.eu.orders", "action": "dbt", "first_version": 4, "version": 9},
)  # fmt: skip


def stub(service: str) -> Stubber:
    session = botocore.session.get_session()
    keys = {"aws_access_key_id": "k", "aws_secret_access_key": "s"}
    return Stubber(session.create_client(service, "us-east-1", **keys))


def test_a_description_names_actions_of_every_kind() -> None:
    text = f"hook=https://example.com/x f=lambda:{ARN} bus=eventbridge:lake job={JOB}"
    actions = open_actions(text, SECRET, SystemClock())
    assert {action.name: type(action) for action in actions} == {
        "f": Function, "job": SparkJob, "hook": Webhook, "bus": EventBus,
    }  # fmt: skip
    assert open_actions("", "", SystemClock()) == []


@pytest.mark.parametrize(
    "text",
    [
        "f=lambda:", "F=lambda:x", "=lambda:x", f"f=lambda:{ARN} f=lambda:{ARN}",
        f"f=lambda:{ARN} f=https://example.com",
        "job=emr-serverless://00f1", "job=emr-serverless://00f1?role=r", "job=emr-serverless:?role=r&entry=e",
        "x=ftp://y",
        "job=emr-serverless://00f1?role=r&entry=e&unknown=1", "job=emr-serverless://00F1?role=r&entry=e",
    ],
)  # fmt: skip
def test_a_description_that_cannot_be_used_is_refused(text: str) -> None:
    with pytest.raises(BadTarget):
        open_actions(text, SECRET, SystemClock())


def test_a_function_is_invoked_with_the_event_and_not_waited_for() -> None:
    with stub("lambda") as functions:
        answer: dict[str, Any] = {"StatusCode": 202, "Payload": StreamingBody(io.BytesIO(b""), 0)}
        functions.add_response("invoke", answer, {"FunctionName": ARN, "InvocationType": "Event", "Payload": ANY})
        Function("f", ARN, functions.client).send([EVENT])
        functions.add_client_error("invoke", "TooManyRequestsException", "slow down", 429)
        with pytest.raises(NotDelivered, match="slow down"):
            Function("f", ARN, functions.client).send([EVENT])


def job(client: Any = None) -> SparkJob:
    (action,) = open_actions(f"job={JOB}", SECRET, SystemClock())
    assert isinstance(action, SparkJob)
    action._client = client
    return action


def test_a_job_run_is_started_once_for_an_event_and_knows_its_table() -> None:
    run = job().run_of(EVENT)
    assert run["jobDriver"]["sparkSubmit"] == {
        "entryPoint": "s3://code/maintain.py",
        "entryPointArguments": [
            "run", "--once", "--table", "sales.eu.orders", "--catalog", "main", "4 9", "{other}",
        ],
        "sparkSubmitParameters": "--conf spark.executor.cores=4",
    }  # fmt: skip
    assert (run["applicationId"], run["executionRoleArn"]) == ("00f1abc", ROLE)
    assert run["clientToken"] == job().run_of(EVENT)["clientToken"]
    other = CloudEvent("t/follow-up/dbt/10-12", EVENT.source, EVENT.type, EVENT.subject, EVENT.data)
    assert run["clientToken"] != job().run_of(other)["clientToken"]
    (second,) = open_actions(f"another={JOB}", SECRET, SystemClock())
    assert isinstance(second, SparkJob)
    assert run["clientToken"] != second.run_of(EVENT)["clientToken"], "two actions of one event are two runs"
    with stub("emr-serverless") as emr:
        answer = {"applicationId": "00f1abc", "jobRunId": "1", "arn": f"{'arn:aws:emr-serverless':<60}"}
        emr.add_response("start_job_run", answer, run)
        job(emr.client).send([EVENT])
        emr.add_client_error("start_job_run", "ValidationException", "no such application", 400)
        with pytest.raises(NotDelivered, match="no such application"):
            job(emr.client).send([EVENT])


def test_the_event_of_a_function_is_a_cloud_event() -> None:
    class Client:
        def invoke(self, **request: Any) -> None:
            self.payload = json.loads(request["Payload"])

    client = Client()
    Function("f", ARN, client).send([EVENT])
    assert (client.payload["specversion"], client.payload["id"]) == ("1.0", EVENT.id)
