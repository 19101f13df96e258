"""Makes the HTTP API of a deployed stack by calls of API Gateway, on an emulator whose
CloudFormation does not know it.

``python -m turnstile_local.routes --stack turnstile`` after ``sam deploy``. It reads the routes
from the template that was deployed; a second run adds missing ones. On AWS it has nothing to do.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from turnstile_local.deployment import aws_client, read_template
from turnstile_local.emulator import KEYS, endpoint
from turnstile_local.errors import StackError
from turnstile_local.settings import REGION, STACK_NAME

ACCOUNT: Final = "000000000000"
"""Of the key that emulators take."""

_NONE: Final = {"Ref": "AWS::NoValue"}
_KIND: Final = "AWS::ApiGatewayV2::"
_FLAGS: Final = frozenset({"DisableExecuteApiEndpoint"})
"""Properties of the API that are parameters' texts in the template, and booleans in a call."""


@dataclass(frozen=True)
class Deployed:
    """A stack as its template and the emulator say it.

    ``template`` has its short tags written out. ``physical`` maps the logical name of each resource
    that is there to its id.
    """

    template: dict[str, Any]
    parameters: Mapping[str, str]
    physical: Mapping[str, str]
    arns: Mapping[str, str]

    def resources(self, kind: str) -> dict[str, dict[str, Any]]:
        """Properties, with their values filled in, of the resources of a kind that the stack's
        conditions let be."""
        found = {}
        for name, resource in self.template["Resources"].items():
            condition = resource.get("Condition")
            if resource["Type"] == f"{_KIND}{kind}" and (condition is None or self.holds({"Condition": condition})):
                found[name] = resource["Properties"]
        return found

    def holds(self, condition: Mapping[str, Any]) -> bool:
        """Whether a condition of the template holds."""
        ((function, given),) = condition.items()
        match function:
            case "Condition":
                return self.holds(self.template["Conditions"][given])
            case "Fn::Equals":
                first, second = (str(self.value(one)) for one in given)
                return first == second
            case "Fn::Not":
                return not self.holds(given[0])
            case "Fn::And":
                return all(map(self.holds, given))
            case "Fn::Or":
                return any(map(self.holds, given))
        raise StackError(f"{function} is no condition", kind="BadTemplate")

    def value(self, given: Any, more: Mapping[str, str] | None = None) -> Any:
        """The value that an expression of the template has; ``more`` are names beside the stack's
        own."""
        if isinstance(given, list):
            return [self.value(one, more) for one in given]
        if not isinstance(given, dict):
            return given
        if len(given) == 1:
            ((function, argument),) = given.items()
            match function:
                case "Ref":
                    return self._reference(argument, more or {})
                case "Fn::If":
                    name, first, second = argument
                    return self.value(first if self.holds({"Condition": name}) else second, more)
                case "Fn::GetAtt":
                    return self._reference(".".join(argument), more or {})
                case "Fn::Join":
                    separator, parts = argument
                    return separator.join(map(str, self.value(parts, more)))
                case "Fn::Sub":
                    text, names = argument if isinstance(argument, list) else (argument, {})
                    known = {**(more or {}), **{name: str(self.value(one, more)) for name, one in names.items()}}
                    return re.sub(r"\$\{([^}!]+)\}", lambda found: str(self._reference(found[1], known)), text)
        members = {name: self.value(one, more) for name, one in given.items()}
        return {name: one for name, one in members.items() if one != _NONE}

    def _reference(self, name: str, more: Mapping[str, str]) -> Any:
        known = {
            "AWS::Partition": "aws", "AWS::Region": REGION, "AWS::AccountId": ACCOUNT, "AWS::NoValue": _NONE,
            **self.arns, **self.physical, **self.parameters, **more,
        }  # fmt: skip
        if name not in known:
            raise StackError(f"the stack has no {name}", remedy="see that it was deployed whole", kind="BadTemplate")
        return known[name]


def stack_at(address: str, stack: str, template: Path) -> Deployed:
    """The stack of that name at ``address``, which was deployed from ``template``. Raises
    StackError if there is none."""
    formation = aws_client("cloudformation", address, KEYS)
    functions = aws_client("lambda", address, KEYS)
    try:
        (described,) = formation.describe_stacks(StackName=stack)["Stacks"]
        listed = formation.describe_stack_resources(StackName=stack)["StackResources"]
    except formation.exceptions.ClientError as error:
        raise StackError(f"there is no stack {stack}: {error}", remedy="sam deploy", kind="NoStack") from error
    document = read_template(template)
    defaults = {name: str(one["Default"]) for name, one in document["Parameters"].items() if "Default" in one}
    given = {one["ParameterKey"]: one["ParameterValue"] for one in described.get("Parameters", [])}
    physical = {
        one["LogicalResourceId"]: one["PhysicalResourceId"] for one in listed
        if one.get("PhysicalResourceId") and not one["ResourceType"].startswith(_KIND)
    }  # fmt: skip
    arns = {}
    for one in listed:
        if one["ResourceType"] == "AWS::Lambda::Function" and one["LogicalResourceId"] in physical:
            configuration = functions.get_function_configuration(FunctionName=one["PhysicalResourceId"])
            arns[f"{one['LogicalResourceId']}.Arn"] = configuration["FunctionArn"]
    return Deployed(document, {**defaults, **given, "AWS::StackName": stack}, physical, arns)


def make_routes(address: str, stack: Deployed) -> str:
    """Adds the missing parts to the API of ``stack``; returns its URL."""
    gateway = aws_client("apigatewayv2", address, KEYS)
    ((api_name, api),) = stack.resources("Api").items()
    properties = {
        name: one == "true" if name in _FLAGS else one for name, one in stack.value(api).items() if name != "Tags"
    }
    there = [one["ApiId"] for one in gateway.get_apis()["Items"] if one["Name"] == properties["Name"]]
    api_id: str = there[0] if there else gateway.create_api(**properties)["ApiId"]
    ids = {api_name: api_id}

    def fill(given: dict[str, Any]) -> dict[str, Any]:
        filled: dict[str, Any] = stack.value(given, ids)
        return filled

    integrations = {
        one["IntegrationUri"]: one["IntegrationId"] for one in gateway.get_integrations(ApiId=api_id)["Items"]
    }
    for name, given in stack.resources("Integration").items():
        wanted = fill(given)
        known = integrations.get(wanted["IntegrationUri"])
        ids[name] = known or gateway.create_integration(**wanted)["IntegrationId"]
    routes = {one["RouteKey"]: one.get("AuthorizerId") for one in gateway.get_routes(ApiId=api_id)["Items"]}
    # LocalEmu cannot list authorizers; there is one at most, and the routes name it.
    authorizers = sorted(filter(None, routes.values()))
    for name, given in stack.resources("Authorizer").items():
        ids[name] = authorizers[0] if authorizers else gateway.create_authorizer(**fill(given))["AuthorizerId"]
    for given in stack.resources("Route").values():
        wanted = fill(given)
        if wanted["RouteKey"] not in routes:
            gateway.create_route(**wanted)
    if not there:
        gateway.create_stage(ApiId=api_id, StageName="$default", AutoDeploy=True)
    return f"{address}/_aws/execute-api-v2/{api_id}/$default"


def main() -> None:
    """Makes the API of a deployed stack and prints its URL."""
    parser = argparse.ArgumentParser(
        prog="python -m turnstile_local.routes", description="Make the HTTP API of a stack on an emulator."
    )
    parser.add_argument("--stack", default=STACK_NAME, help="name of the stack that sam deploy made")
    parser.add_argument(
        "--template", type=Path, default=Path(".aws-sam/build/template.yaml"), help="what it was made from"
    )
    options = parser.parse_args()
    try:
        address = endpoint()
        print(make_routes(address, stack_at(address, options.stack, options.template)))
    except StackError as error:
        sys.exit(f"error: {error.message}\nremedy: {error.remedy}")


if __name__ == "__main__":
    main()
