"""Events of an emulated deployment on a bus of EventBridge, by the function's own role (I12,
I14)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.stack import Table, eventually
from turnstile_local import Stack

pytestmark = [pytest.mark.stack, pytest.mark.slow]
BUS = "arn:aws:events:us-east-1:000000000000:event-bus/lake"


def test_i14_each_version_of_a_table_comes_to_a_queue_by_a_rule_of_the_bus(tmp_path: Path) -> None:
    parameters = {"EventBus": BUS}
    with Stack.start(tmp_path / "home", port=0, parameters=parameters, roles=True) as stack:
        events = stack.aws("events")
        sqs = stack.aws("sqs")
        assert events.create_event_bus(Name="lake")["EventBusArn"] == BUS
        queue = sqs.create_queue(QueueName="commits")["QueueUrl"]
        arn = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
        pattern = {"source": ["turnstile"], "detail-type": ["turnstile.table.ratified"]}
        events.put_rule(Name="commits", EventBusName="lake", EventPattern=json.dumps(pattern))
        events.put_targets(Rule="commits", EventBusName="lake", Targets=[{"Id": "1", "Arn": arn}])
        table = Table(stack)
        versions = set[int]()
        for version in range(1, 6):
            table.append(version)

        def receive() -> bool:
            for message in sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10).get("Messages", ()):
                detail = json.loads(message["Body"])["detail"]
                assert detail["subject"] == table.id
                versions.add(detail["data"]["version"])
                sqs.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])
            return versions == {1, 2, 3, 4, 5}

        eventually(receive, what="every version is in the queue")
