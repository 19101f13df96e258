"""Parameters of template.yaml with which every resource and every right exists."""

from __future__ import annotations

from typing import Final

from tests.support.roles.resolved import ACCOUNT, REGION
from tests.support.roles.world import IMPORTS, LAKE

_OWN: Final = f"{REGION}:{ACCOUNT}"

EVERYTHING: Final = {
    "Realm": "test",
    "LakeRoot": f"s3://{LAKE}",
    "CreateLakeBucket": "true",
    "LakePutIfAbsent": "true",
    "ImportRoot": f"s3://{IMPORTS}",
    "LakeKey": f"arn:aws:kms:{_OWN}:key/lake",
    "EventBus": f"arn:aws:events:{_OWN}:event-bus/lake",
    "FollowUps": "call=lambda:x",
    "FollowUpFunctions": f"arn:aws:lambda:{_OWN}:function:dbt",
    "FollowUpApplication": f"arn:aws:emr-serverless:{_OWN}:/applications/00abc",
    "FollowUpJobRole": f"arn:aws:iam::{ACCOUNT}:role/job",
    "Secret": f"arn:aws:ssm:{_OWN}:parameter/turnstile/secret",
    "SecretKey": f"arn:aws:kms:{_OWN}:key/secret",
    "LakeSecret": f"arn:aws:secretsmanager:{_OWN}:secret:lake-abcdef",
    "IssueTokens": "true",
    "OidcIssuer": "https://issuer.example",
    "OidcAudience": "turnstile",
    "VendingRole": f"arn:aws:iam::{ACCOUNT}:role/lake",
    "Console": "true",
    "Tracing": "Active",
    "SnapStart": "1",
    "RowsFrom": "queue",
    "RowsStream": f"arn:aws:kinesis:{_OWN}:stream/rows",
    "RowsStreamKey": f"arn:aws:kms:{_OWN}:key/57ea",
    "RowsTable": "main.sales.r1",
    "Exposure": "public",
    "VpcEndpointIds": "",
    "WebAcl": "",
    "DomainName": "turnstile.example.com",
    "DomainCertificate": f"arn:aws:acm:{_OWN}:certificate/c",
    "DisableExecuteApiEndpoint": "true",
    "PermissionsBoundary": f"arn:aws:iam::{ACCOUNT}:policy/boundary",
    "RolePath": "/data/turnstile/",
    "SubnetIds": "subnet-0a1b2c3d,subnet-1a1b2c3d",
    "SecurityGroupIds": "sg-0a1b2c3d",
    "TablesKey": f"arn:aws:kms:{_OWN}:key/7ab1e5",
    "LogsKey": f"arn:aws:kms:{_OWN}:key/1095",
    "QueuesKey": f"arn:aws:kms:{_OWN}:key/40e0e5",
    "EnvironmentKey": f"arn:aws:kms:{_OWN}:key/e0",
}
