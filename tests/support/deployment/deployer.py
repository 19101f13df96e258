"""The requests of SAM's command line, and of CloudFormation in the deployer's name, to AWS:
recorded from LocalEmu's log. The log has a line for each call, also of calls of the emulator's
CloudFormation to its other services (at the level ``trace``). ``CALLS`` is the recording: the
actions that ``sam deploy``, an update and ``sam delete`` need, one a line. A test of the deployment
records them again, a quick one compares the deployer's policy with them.
"""

from __future__ import annotations

import re
from typing import Final

from tests.support.repository import ROOT

CALLS: Final = ROOT / "tests/data/deployer_calls.txt"

_LINE: Final = re.compile(r"(internal\.aws|localemu\.request\.aws)\s+: AWS ([\w-]+)\.(\w+) => \d+(.*)")
_OF_SAM: Final = re.compile(r"Boto3/.*lang/python#3\.13")
"""The only program of the root that is built on boto3."""

_NAMES: Final = {
    "s3:PutBucketEncryption": "s3:PutEncryptionConfiguration",
    "s3:PutBucketLifecycleConfiguration": "s3:PutLifecycleConfiguration",
    "s3:PutPublicAccessBlock": "s3:PutBucketPublicAccessBlock",
}
"""Operations with an action of another name."""

_OF_THE_EMULATOR: Final = re.compile(
    r"(kinesis|dynamodbstreams|sts|cloudwatch|sqs):(?!CreateQueue|DeleteQueue|GetQueueAttributes|SetQueueAttributes|"
    r"TagQueue).*"
    r"|events:PutEvents|logs:(CreateLogStream|PutLogEvents)|lambda:Invoke|dynamodb:(ListTables|\w*Item|Query|Scan)"
    r"|s3:(GetObject|PutObject|HeadObject|HeadBucket|UploadPart|\w*MultipartUpload|ListObjects\w*|DeleteObjects?)"
    r"|(s3|lambda|dynamodb):List\w+|s3:PutBucketTagging"
)
"""Calls that LocalEmu's services make to each other (streams of tables are streams of Kinesis, code
lies in a bucket), and calls that running functions cause."""


def recorded(log: str) -> set[str]:
    """Returns the actions of SAM and of CloudFormation in a log of LocalEmu."""
    found = set[str]()
    for origin, service, operation, rest in _LINE.findall(log):
        action = f"{service}:{operation}"
        if origin != "internal.aws":
            if service == "cloudformation" and _OF_SAM.search(rest):
                found.add(action)
        elif not _OF_THE_EMULATOR.fullmatch(action):
            found.add(_NAMES.get(action, action))
    return found


def expected() -> set[str]:
    """The recording that is kept."""
    return set(CALLS.read_text().split())
