"""Lambda's calls in a function's name: they follow from the template, and no function's code shows
them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.support.roles.policies import Call
from tests.support.roles.resolved import Resolved


def calls_of_lambda(stack: Resolved, function: str) -> Iterator[Call]:
    """Logs, streams, queues of failures, traces, interfaces and environment of a function of this
    stack, as AWS documents what each needs."""
    properties = stack.resources[function]["Properties"]
    log = f"{stack.value({'Fn::GetAtt': [properties['LoggingConfig']['LogGroup'].rpartition('/')[2], 'Arn']})}"
    for action in ("logs:CreateLogStream", "logs:PutLogEvents"):
        yield Call(function, action, log)
    yield Call(function, "kms:Decrypt", stack.parameters["EnvironmentKey"])
    if stack.parameters["SubnetIds"]:
        for action in _INTERFACES:
            yield Call(function, f"ec2:{action}", "*")
    if stack.parameters["Tracing"] == "Active":
        for action in ("xray:PutTraceSegments", "xray:PutTelemetryRecords"):
            yield Call(function, action, "*")
    for event in properties.get("Events", {}).values():
        described = event["Properties"]
        if event["Type"] == "DynamoDB":
            for action in ("DescribeStream", "GetRecords", "GetShardIterator"):
                yield Call(function, f"dynamodb:{action}", described["Stream"])
            yield Call(function, "dynamodb:ListStreams", "*")
            yield Call(function, "kms:Decrypt", stack.parameters["TablesKey"])
            yield from _destination(stack, function, described.get("DestinationConfig"))
    for mapping in stack.resources.values():
        described = mapping.get("Properties", {})
        if mapping["Type"] == "AWS::Lambda::EventSourceMapping" and described["FunctionName"] == function:
            for action in SOURCES[described["EventSourceArn"].split(":")[2]]:
                yield Call(function, action, described["EventSourceArn"])
            key = "RowsStreamKey" if ":kinesis:" in described["EventSourceArn"] else "QueuesKey"
            yield Call(function, "kms:Decrypt", stack.parameters[key])
            yield from _destination(stack, function, described.get("DestinationConfig"))
    yield from _destination(stack, function, properties.get("EventInvokeConfig", {}).get("DestinationConfig"))


def _destination(stack: Resolved, function: str, config: Any) -> Iterator[Call]:
    if config:
        yield Call(function, "sqs:SendMessage", config["OnFailure"]["Destination"])
        for action in ("kms:Decrypt", "kms:GenerateDataKey"):
            yield Call(function, action, stack.parameters["QueuesKey"])


SOURCES = {
    "kinesis": tuple(
        f"kinesis:{action}"
        for action in ("DescribeStream", "DescribeStreamSummary", "GetRecords", "GetShardIterator", "ListShards")
    ),
    "sqs": tuple(f"sqs:{action}" for action in ("DeleteMessage", "GetQueueAttributes", "ReceiveMessage")),
}
"""AWS's demands on the role of a function that takes batches, by the service of the source."""

_INTERFACES = (
    "CreateNetworkInterface",
    "DescribeNetworkInterfaces",
    "DescribeSubnets",
    "DeleteNetworkInterface",
    "AssignPrivateIpAddresses",
    "UnassignPrivateIpAddresses",
)
"""AWS's demands on the role of a function in a VPC."""
