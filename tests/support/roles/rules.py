"""Evaluates the rules of template.yaml on parameters, before anything is created."""

from __future__ import annotations

from typing import Any


def value(node: Any, given: dict[str, str]) -> Any:
    """A condition function of CloudFormation's, evaluated."""
    if not isinstance(node, dict):
        return node
    ((name, argument),) = node.items()
    match name:
        case "Ref":
            return given[argument]
        case "Fn::Equals":
            return value(argument[0], given) == value(argument[1], given)
        case "Fn::Not":
            return not value(argument[0], given)
        case "Fn::And":
            return all(value(one, given) for one in argument)
        case "Fn::Or":
            return any(value(one, given) for one in argument)
    if name == "Fn::EachMemberEquals":
        listed, member = (value(one, given) for one in argument)
        return all(one == member for one in listed.split(","))
    raise AssertionError(name)


def refused(template: dict[str, Any], **given: str) -> list[str]:
    """Returns the messages of the template's rules for these parameters."""
    values = {name: str(found.get("Default", "")) for name, found in template["Parameters"].items()} | given
    return [
        assertion["AssertDescription"]
        for rule in template["Rules"].values()
        if value(rule["RuleCondition"], values)
        for assertion in rule["Assertions"]
        if not value(assertion["Assert"], values)
    ]
