"""What Lambda does in a function's name: it follows from the template, and no function's code shows it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.support.roles.policies import Call
from tests.support.roles.resolved import Resolved


def calls_of_lambda(stack: Resolved, function: str) -> Iterator[Call]:
    """Logs, streams, queues of failures, traces of a function of this stack, each with what its documentation asks for."""
    properties = stack.resources[function]["Properties"]
    log = f"{stack.value({'Fn::GetAtt': [properties['LoggingConfig']['LogGroup'].rpartition('/')[2], 'Arn']})}"
    for action in ("logs:CreateLogStream", "logs:PutLogEvents"):
        yield Call(function, action, log)
    if stack.parameters["Tracing"] == "Active":
        for action in ("xray:PutTraceSegments", "xray:PutTelemetryRecords"):
            yield Call(function, action, "*")
    for event in properties.get("Events", {}).values():
        described = event["Properties"]
        if event["Type"] == "DynamoDB":
            for action in ("DescribeStream", "GetRecords", "GetShardIterator"):
                yield Call(function, f"dynamodb:{action}", described["Stream"])
            yield Call(function, "dynamodb:ListStreams", "*")
            yield from _destination(function, described.get("DestinationConfig"))
    yield from _destination(function, properties.get("EventInvokeConfig", {}).get("DestinationConfig"))


def _destination(function: str, config: Any) -> Iterator[Call]:
    if config:
        yield Call(function, "sqs:SendMessage", config["OnFailure"]["Destination"])
