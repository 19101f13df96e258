"""I12: the deployer's policy has the actions that the recorded deployment needs, and no other
without a reason. ``tests/data/deployer_calls.txt`` is recorded by ``make test-deployment``.
LocalEmu's CloudFormation asks for less than AWS's, so each action beyond the recording has a reason
here.
"""

from __future__ import annotations

import json
import re

from tests.support.deployment.deployer import expected, recorded
from tests.support.repository import ROOT

REASONS = {
    r"apigateway:.*": "LocalEmu's CloudFormation makes no API; API Gateway's actions are methods",
    r"logs:(Associate|Disassociate)KmsKey|ec2:.*|route53:.*|wafv2:.*|lambda:\w+FunctionConcurrency|"
    r"s3:PutEncryptionConfiguration|sqs:SetQueueAttributes":
        "of parameters that the recorded deployment does not give: keys, a VPC, a domain, a web ACL, concurrency",
    r"lambda:(PublishVersion|ListVersionsByFunction|\w+Alias)": "of the parameter SnapStart",
    r"logs:(CreateLogDelivery|DeleteLogDelivery|UpdateLogDelivery|GetLogDelivery|ListLogDeliveries|PutResourcePolicy|"
    r"DescribeResourcePolicies)":
        "the access log of the API, which the gateway sets up in the deployer's name",
    r"\w+:(Tag|Untag)\w+|\w+:List(Tags|QueueTags)\w*": "CloudFormation on AWS tags what it makes",
    r"\w+:(Get|Describe|List)(Function\w*|Policy\w*|Role\w*|Layer\w*|EventSourceMapping|TimeToLive|ContinuousBackups|"
    r"Rule|TargetsByRule|Attached\w+|BucketPolicy)":
        "CloudFormation on AWS reads what it has made",
    r"\w+:(Delete|Detach|Remove)\w+": "an update that replaces or leaves out, a first deployment that fails, and the "
                                      "end of the stack",
    r"iam:(PassRole|PutRolePermissionsBoundary|UpdateAssumeRolePolicy|CreatePolicyVersion)|"
    r"lambda:Update(EventSourceMapping|FunctionEventInvokeConfig)":
        "checked by AWS, not by the emulator; or an update of what the recorded update leaves alone",
    r"dynamodb:(UpdateContinuousBackups|UpdateTable)|logs:PutRetentionPolicy|s3:Put(BucketOwnershipControls|"
    r"BucketPublicAccessBlock|LifecycleConfiguration)":
        "properties that the emulator sets with the resource, or not at all",
    r"s3:(GetObject|PutObject|ListBucket)": "the code, which SAM puts into a bucket of yours",
    r"cloudformation:(DeleteChangeSet|DescribeStackResources|GetTemplate|UpdateStack)": "a change set that is not "
    "carried out, and a restore",
}  # fmt: skip
"""Patterns of actions that are granted and not recorded."""


def granted() -> set[str]:
    """The actions of the policy."""
    document = json.loads((ROOT / "infra/policies/deployer.json").read_text())
    listed = (statement["Action"] for statement in document["Statement"])
    return {action for each in listed for action in ([each] if isinstance(each, str) else each)}


def test_i12_a_deployer_may_do_all_that_a_recorded_deployment_asks_for() -> None:
    assert len(expected()) >= 30
    assert sorted(expected() - granted()) == []


def test_i12_what_is_granted_beyond_the_recording_has_a_reason_and_each_reason_is_needed() -> None:
    beyond = granted() - expected()
    without = sorted(action for action in beyond if not any(re.fullmatch(pattern, action) for pattern in REASONS))
    assert without == []
    assert [why for pattern, why in REASONS.items() if not any(re.fullmatch(pattern, one) for one in beyond)] == []


def test_a_recording_has_what_sam_and_cloudformation_ask_for_and_not_what_the_emulator_asks_itself() -> None:
    sam = "Boto3/1.43 md/Botocore#1.43 lang/python#3.13.5"
    log = "\n".join(
        (
            (
                f"x INFO --- [r-1] localemu.request.aws       : AWS cloudformation.CreateChangeSet => 200; "
                f"{{'User-Agent': '{sam}'}}"
            ),
            (
                "x INFO --- [r-1] localemu.request.aws       : AWS cloudformation.ListStacks => 200; {'User-Agent': "
                "'Boto3/1 lang/python#3.11'}"
            ),
            "x INFO --- [r-2] l.request.internal.aws     : AWS iam.CreateRole => 200",
            "x INFO --- [r-2] l.request.internal.aws     : AWS s3.PutBucketLifecycleConfiguration => 200",
            "x INFO --- [r-2] l.request.internal.aws     : AWS kinesis.GetRecords => 200",
            (
                "x INFO --- [r-2] localemu.request.aws       : AWS dynamodb.UpdateItem => 200; {'User-Agent': "
                "'Botocore/1 turnstile'}"
            ),
        )
    )
    assert recorded(log) == {"cloudformation:CreateChangeSet", "iam:CreateRole", "s3:PutLifecycleConfiguration"}
