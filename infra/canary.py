"""Makes a deployment of template.yaml a canary: new code gets a part of the requests first, and an
alarm rolls it back.

    sam build
    python infra/canary.py --type Canary10Percent5Minutes
    sam deploy --template-file .aws-sam/build/canary.json --parameter-overrides ...

It reads the result of `sam build` and writes a template beside it, in which the functions that
answer requests have an alias `live`, which the API calls, a new version for each run of this
script, and a deployment by CodeDeploy that moves the alias to it. While it moves, alarms watch the
errors of the new version and the API's failures. An alarm moves the alias back to the version
before, and the update of the stack fails and is rolled back. The stream and the schedules get new
code at once.

It is a script, and no parameter of template.yaml, because SAM makes a new version only if
``CodeUri`` has changed, and the code is in the layers: an automatic alias would silently go on with
old code, or with old values of parameters.
"""

# ruff: noqa: INP001 - a script, run by its path

from __future__ import annotations

import argparse
import copy
import datetime as dt
import hashlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parent))

from turnstile_local.deployment import read_template

Template = dict[str, Any]

ANSWERING: Final = ("Commit", "Catalog", "Iceberg", "Plans", "Branches", "Ingest", "Tokens")
"""Functions that answer requests: each has an integration and a permission of the same name."""

ALIAS: Final = "live"

TYPES: Final = (
    "Canary10Percent5Minutes",
    "Canary10Percent10Minutes",
    "Canary10Percent15Minutes",
    "Canary10Percent30Minutes",
    "Linear10PercentEvery1Minute",
    "Linear10PercentEvery2Minutes",
    "Linear10PercentEvery3Minutes",
    "Linear10PercentEvery10Minutes",
    "AllAtOnce",
)
"""CodeDeploy's ways to move an alias (``AWS::CodeDeploy::DeploymentGroup``, predefined
configurations for Lambda)."""

FAILURES: Final = 0.01
"""The share of the API's requests that may end with a 5xx in a minute."""


def start_of(text: str) -> dict[str, Any]:
    """Returns the properties that say how sandboxes of the commit function start: ``cold``, from a
    snapshot of one that has started (``snapstart``), or so many of them always (``provisioned=5``).
    Raises ValueError for anything else.
    """
    if text == "cold":
        return {}
    if text == "snapstart":
        return {"SnapStart": {"ApplyOn": "PublishedVersions"}}
    kind, _, count = text.partition("=")
    if kind == "provisioned" and count.isdecimal() and int(count) > 0:
        return {"ProvisionedConcurrencyConfig": {"ProvisionedConcurrentExecutions": int(count)}}
    raise ValueError(f"{text!r} is none of cold, snapstart and provisioned=NUMBER")


def canary(template: Template, release: str, kind: str, start: str = "cold") -> Template:
    """Returns the template whose deployment is a canary.

    Args:
        template: template.yaml, or the result of `sam build`.
        release: any text; another one makes new versions of the functions.
        kind: one of ``TYPES``.
        start: as ``start_of``. Both warm ways belong to a version, so that they need the alias.

    Raises:
        ValueError: there is no such kind, or no such start.
    """
    if kind not in TYPES:
        raise ValueError(f"{kind!r} is none of {', '.join(TYPES)}")
    made = copy.deepcopy(template)
    for name in ("CommitVersion", "CommitAlias"):  # of the parameter SnapStart, which has an alias of its own
        made["Resources"].pop(name, None)
    made["Resources"]["CommitFunction"]["Properties"].pop("SnapStart", None)
    made["Resources"]["CommitFunction"]["Properties"] |= start_of(start)
    resources = made["Resources"]
    digest = hashlib.sha256(release.encode()).hexdigest()
    for name in ANSWERING:
        function = f"{name}Function"
        alias = {"Ref": f"{name}Function.Alias"}
        resources[function]["Properties"] |= {
            "AutoPublishAlias": ALIAS,
            "AutoPublishCodeSha256": digest,
            "DeploymentPreference": {
                "Type": kind,
                "Alarms": [{"Ref": f"{name}CanaryErrors"}, {"Ref": "CanaryFailures"}],
            },
        }
        resources[f"{name}Integration"]["Properties"]["IntegrationUri"]["Fn::Sub"][1]["Function"] = alias
        resources[f"{name}Permission"]["Properties"]["FunctionName"] = alias
        resources[f"{name}CanaryErrors"] = _errors_of_new_version(function)
    resources["CanaryFailures"] = _failures_of_the_api()
    return made


def _errors_of_new_version(function: str) -> dict[str, Any]:
    """Invocations that fail: code that cannot be imported, runs out of time or memory. Of the
    newest version alone, whose errors would be few among the errors of all."""
    return _alarm(
        f"{function}: the version that is being deployed fails",
        Namespace="AWS/Lambda",
        MetricName="Errors",
        Dimensions=[
            {"Name": "FunctionName", "Value": {"Ref": function}},
            {"Name": "Resource", "Value": {"Fn::Sub": f"${{{function}}}:{ALIAS}"}},
            {"Name": "ExecutedVersion", "Value": {"Fn::GetAtt": [f"{function}.Version", "Version"]}},
        ],
        Statistic="Sum",
        Threshold=0,
    )


def _failures_of_the_api() -> dict[str, Any]:
    """Requests that are answered with a 5xx, which is no error of an invocation."""
    return _alarm(
        "More than one request in a hundred fails while a version is being deployed",
        Namespace="AWS/ApiGateway",
        MetricName="5xx",
        Dimensions=[{"Name": "ApiId", "Value": {"Ref": "Api"}}],
        Statistic="Average",
        Threshold=FAILURES,
    )


def _alarm(description: str, **metric: Any) -> dict[str, Any]:
    """An alarm of the second minute of three in which it is over the threshold."""
    fixed = {
        "AlarmDescription": description,
        "Period": 60,
        "EvaluationPeriods": 3,
        "DatapointsToAlarm": 2,
        "ComparisonOperator": "GreaterThanThreshold",
        "TreatMissingData": "notBreaching",
    }
    return {"Type": "AWS::CloudWatch::Alarm", "Properties": {**metric, **fixed}}


def main(arguments: Sequence[str] | None = None) -> int:
    """Writes the template, and says how to deploy it; returns the exit code."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--type", default=TYPES[0], choices=TYPES, help="how the alias moves")
    parser.add_argument(
        "--template", type=Path, default=Path(".aws-sam/build/template.yaml"), help="what 'sam build' built"
    )
    parser.add_argument(
        "--release", default="", help="name of the deployment; by default the time, so each run has one"
    )
    parser.add_argument(
        "--start",
        default="cold",
        metavar="cold|snapstart|provisioned=N",
        help="how sandboxes of the commit function start; priced",
    )
    chosen = parser.parse_args(arguments)
    try:
        start_of(chosen.start)
    except ValueError as error:
        parser.error(f"--start: {error}")
    if not chosen.template.is_file():
        print(f"there is no {chosen.template}: run 'sam build' first", file=sys.stderr)
        return 1
    release = chosen.release or dt.datetime.now(dt.UTC).isoformat()
    target = chosen.template.with_name("canary.json")
    target.write_text(json.dumps(canary(read_template(chosen.template), release, chosen.type, chosen.start), indent=1))
    print(f"sam deploy --template-file {target} --parameter-overrides ...")
    return 0


if __name__ == "__main__":
    sys.exit(main())
