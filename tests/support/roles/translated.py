"""template.yaml as SAM's own translator hands it to CloudFormation."""

from __future__ import annotations

import copy
import os
import re
from typing import Any
from unittest.mock import patch

from samtranslator.translator.transform import transform


class _NoPolicies:
    """SAM asks IAM for its managed policies; no function here names one."""

    def load(self) -> dict[str, str]:
        return {}


def translated(template: dict[str, Any]) -> dict[str, Any]:
    """The resources that CloudFormation gets."""
    given = copy.deepcopy(template)
    for resource in given["Resources"].values():
        if resource["Type"] == "AWS::Serverless::Function":
            resource["Properties"]["CodeUri"] = "s3://code/function.zip"
        if resource["Type"] == "AWS::Serverless::LayerVersion":
            resource["Properties"]["ContentUri"] = "s3://code/layer.zip"
    with patch.dict(os.environ, AWS_DEFAULT_REGION="us-east-1"):
        return dict(transform(given, {}, _NoPolicies())["Resources"])


def references(node: Any) -> set[str]:
    """Names to which a part of a template refers."""
    if isinstance(node, list):
        return set[str]().union(*map(references, node))
    if not isinstance(node, dict):
        return set()
    found = set[str]()
    for name, value in node.items():
        if name == "Ref" and isinstance(value, str):
            found.add(value)
        elif name == "Fn::GetAtt":
            found.add((value if isinstance(value, list) else value.split("."))[0])
        elif name == "Fn::Sub":
            text = value[0] if isinstance(value, list) else value
            found |= {match.partition(".")[0] for match in re.findall(r"\$\{([^}!]+)\}", text)} | references(value)
        else:
            found |= references(value)
    return found
