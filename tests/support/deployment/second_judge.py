"""Judges calls by LocalEmu's evaluation of IAM's policies.

It runs by LocalEmu's Python in the root of ``root.py`` and imports nothing of this project. Its
input is a JSON array of cases, its output an array of the numbers of their refused calls:

    [{"policies": [{"Statement": [...]}], "calls": [{"action", "resource", "keys", "context"}]}]

"""

from __future__ import annotations

import json
import sys
from typing import Any

from localemu.services.iam_enforcement import evaluator
from localemu.services.iam_enforcement.identity import CallerIdentity

CALLER = CallerIdentity("AssumedRole", "123456789012", "arn:aws:sts::123456789012:assumed-role/role/session")


def refused(case: dict[str, Any]) -> list[int]:
    """The numbers of the calls of a case that its policies do not allow."""
    evaluator.get_identity_policies = lambda _: case["policies"]
    evaluator.get_permission_boundary = lambda _: None
    evaluator.get_session_policies = lambda _: []
    judge = evaluator.PolicyEvaluator()
    found = []
    for number, call in enumerate(case["calls"]):
        context = dict(call["context"]) | ({"dynamodb:LeadingKeys": call["keys"]} if call["keys"] else {})
        if judge.evaluate(CALLER, call["action"], call["resource"], context) is not evaluator.Decision.ALLOW:
            found.append(number)
    return found


if __name__ == "__main__":
    print(json.dumps([refused(case) for case in json.load(sys.stdin)]))
