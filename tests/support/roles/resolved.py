"""template.yaml as CloudFormation would create it for some parameters: conditions decided,
references replaced."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

ACCOUNT: Final = "000000000000"
REGION: Final = "us-east-1"
PSEUDO: Final = {
    "AWS::Partition": "aws",
    "AWS::Region": REGION,
    "AWS::AccountId": ACCOUNT,
    "AWS::StackName": "turnstile",
    "AWS::URLSuffix": "amazonaws.com",
}
_GONE: Final = object()
"""Stands for ``AWS::NoValue``."""

_ARNS: Final = {
    "AWS::DynamoDB::Table": "arn:aws:dynamodb:{region}:{account}:table/{name}",
    "AWS::SQS::Queue": "arn:aws:sqs:{region}:{account}:{name}",
    "AWS::Logs::LogGroup": "arn:aws:logs:{region}:{account}:log-group:{name}:*",
    "AWS::IAM::Role": "arn:aws:iam::{account}:role/{name}",
    "AWS::S3::Bucket": "arn:aws:s3:::{name}",
    "AWS::Lambda::Function": "arn:aws:lambda:{region}:{account}:function:{name}",
    "AWS::Serverless::Function": "arn:aws:lambda:{region}:{account}:function:{name}",
}


class Resolved:
    """The resources of a template that exist for these parameters; what is not given has its
    default."""

    def __init__(self, template: Mapping[str, Any], parameters: Mapping[str, str]) -> None:
        self._template = template
        unknown = parameters.keys() - template["Parameters"].keys()
        assert not unknown, f"no parameters of the template: {unknown}"
        self.parameters = {
            name: parameters.get(name, described.get("Default", ""))
            for name, described in template["Parameters"].items()
        }
        self._verdicts: dict[str, bool] = {}
        self.resources: dict[str, Any] = {
            name: self.value(resource)
            for name, resource in template["Resources"].items()
            if "Condition" not in resource or self.holds(resource["Condition"])
        }

    def holds(self, condition: str) -> bool:
        """Whether a condition of the template does."""
        if condition not in self._verdicts:
            self._verdicts[condition] = bool(self.value(self._template["Conditions"][condition]))
        return self._verdicts[condition]

    def value(self, node: Any) -> Any:
        """A node of the template with its functions carried out."""
        if isinstance(node, list):
            return [made for member in node if (made := self.value(member)) is not _GONE]
        if not isinstance(node, Mapping):
            return node
        if len(node) == 1:
            ((name, argument),) = node.items()
            if name == "Ref":
                return self._ref(argument)
            if name == "Condition" and isinstance(argument, str):
                return self.holds(argument)
            if name.startswith("Fn::"):
                return self._function(name.removeprefix("Fn::"), argument)
        return {name: made for name, member in node.items() if (made := self.value(member)) is not _GONE}

    def _ref(self, name: str) -> Any:
        if name == "AWS::NoValue":
            return _GONE
        if name in PSEUDO:
            return PSEUDO[name]
        if name in self.parameters:
            value = self.parameters[name]
            is_list = self._template["Parameters"][name]["Type"] == "CommaDelimitedList"
            return [part for part in str(value).split(",") if part] if is_list else value
        if self._template["Resources"][name]["Type"] == "AWS::IAM::ManagedPolicy":
            return f"arn:aws:iam::{ACCOUNT}:policy/{name}"
        return name

    def _function(self, name: str, argument: Any) -> Any:
        if name == "If":
            condition, yes, no = argument
            return self.value(yes if self.holds(condition) else no)
        if name == "Sub":
            return self._sub(argument)
        if name == "GetAtt":
            return self._attribute(*(argument if isinstance(argument, list) else argument.split(".", 1)))
        given = self.value(argument)
        match name:
            case "Not":
                return not given[0]
            case "And":
                return all(given)
            case "Or":
                return any(given)
            case "Equals":
                return str(given[0]) == str(given[1])
            case "Join":
                return given[0].join(map(str, given[1]))
            case "Split":
                return str(given[1]).split(given[0])
            case "Select":
                return given[1][int(given[0])]
        raise AssertionError(f"Fn::{name} is not known here")

    def _sub(self, argument: Any) -> str:
        text, own = argument if isinstance(argument, list) else (argument, {})
        own = {name: self.value(value) for name, value in own.items()}

        def replaced(match: re.Match[str]) -> str:
            name = match[1]
            if name in own:
                return str(own[name])
            return str(self._attribute(*name.split(".", 1)) if "." in name else self._ref(name))

        return re.sub(r"\$\{([^!}][^}]*)\}", replaced, text)

    def _attribute(self, name: str, attribute: str) -> str:
        resource = self._template["Resources"][name]
        if attribute == "StreamArn":
            return f"{self._attribute(name, 'Arn')}/stream/1"
        if attribute != "Arn":
            return f"{name}.{attribute}"
        properties = resource.get("Properties", {})
        own = {"AWS::Logs::LogGroup": "LogGroupName", "AWS::S3::Bucket": "BucketName"}.get(resource["Type"])
        named = self.value(properties[own]) if own else name
        path = self.value(properties.get("Path", "/")) if resource["Type"] == "AWS::IAM::Role" else "/"
        prefix = path.strip("/") + "/" if isinstance(path, str) and path.strip("/") else ""
        form = _ARNS.get(resource["Type"], "arn:aws:cloudformation:{region}:{account}:{name}")
        return form.format(region=REGION, account=ACCOUNT, name=prefix + named)
