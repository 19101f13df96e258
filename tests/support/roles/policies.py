"""What a role of template.yaml allows: its statements one action and one resource at a time, judged
by an evaluator of IAM's rules that is not this project's (ministack's)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any, NamedTuple

from ministack.core.iam_evaluator import EvalContext, evaluate, parse_policy_document

from tests.support.roles.resolved import ACCOUNT, REGION, Resolved


class Grant(NamedTuple):
    """One action on one resource that a statement allows. ``where``: the policy, and the number of
    the statement in it."""

    role: str
    where: str
    action: str
    resource: str
    condition: str


class Call(NamedTuple):
    """Something that a function, or Lambda in its name, asks of AWS. ``keys``: of the rows, for
    DynamoDB's conditions."""

    function: str
    action: str
    resource: str
    keys: tuple[str, ...] = ()
    context: tuple[tuple[str, str], ...] = ()


class Role:
    """A role with all its policies. ``without`` leaves one grant, or one statement out."""

    def __init__(self, name: str, statements: dict[str, list[dict[str, Any]]]) -> None:
        self.name = name
        self.statements = statements
        """By policy."""

    def grants(self) -> Iterator[Grant]:
        """Everything that it allows."""
        for where, statement in self._numbered():
            if statement["Effect"] == "Allow":
                for action in listed(statement["Action"]):
                    for resource in listed(statement["Resource"]):
                        yield Grant(self.name, where, action, resource, repr(statement.get("Condition", "")))

    def allowing(self) -> list[str]:
        """The places of the statements that allow something."""
        return [where for where, statement in self._numbered() if statement["Effect"] == "Allow"]

    def _numbered(self) -> Iterator[tuple[str, dict[str, Any]]]:
        for policy, statements in self.statements.items():
            for number, statement in enumerate(statements):
                yield f"{policy}/{number}", statement

    def without(self, left_out: Grant | str) -> Role:
        """The role without a grant, or without the statement at a place."""
        kept: dict[str, list[dict[str, Any]]] = {}
        for where, statement in self._numbered():
            if where == left_out:
                continue
            if isinstance(left_out, Grant) and where == left_out.where:
                for made in _parts(statement, left_out):
                    kept.setdefault(where, []).append(made)
            else:
                kept.setdefault(where, []).append(statement)
        return Role(self.name, kept)

    def allows(self, call: Call) -> bool:
        """Whether IAM would let the call through."""
        context = dict(call.context)
        if call.keys:
            context["dynamodb:leadingkeys"] = list(call.keys)  # type: ignore[assignment]
        asked = EvalContext(
            f"arn:aws:sts::{ACCOUNT}:assumed-role/{self.name}/x", "AssumedRole", ACCOUNT, call.action, call.resource,
            REGION, service_context={name.lower(): value for name, value in context.items()},
        )  # fmt: skip
        return bool(evaluate(asked, self._parsed).decision == "Allow")

    @cached_property
    def _parsed(self) -> list[Any]:
        return [
            parse_policy_document({"Version": "2012-10-17", "Statement": statements})
            for statements in self.statements.values()
        ]


def _parts(statement: dict[str, Any], gone: Grant) -> Iterator[dict[str, Any]]:
    """The statement without one action on one resource."""
    actions = listed(statement["Action"])
    resources = listed(statement["Resource"])
    if others := [action for action in actions if action != gone.action]:
        yield {**statement, "Action": others}
    if elsewhere := [resource for resource in resources if resource != gone.resource]:
        yield {**statement, "Action": gone.action, "Resource": elsewhere}


def listed(value: Any) -> list[str]:
    """One or several, as a list."""
    return [value] if isinstance(value, str) else list(value)


def roles_of(stack: Resolved) -> dict[str, Role]:
    """By function, the role that it has, with inline, managed and attached policies."""
    found: dict[str, Role] = {}
    for name, resource in stack.resources.items():
        if resource["Type"] not in ("AWS::Serverless::Function", "AWS::Lambda::Function"):
            continue
        role = resource["Properties"]["Role"].rpartition("/")[2]
        properties = stack.resources[role]["Properties"]
        statements = {each["PolicyName"]: _statements(each) for each in properties.get("Policies", ())}
        for arn in properties.get("ManagedPolicyArns", ()):
            policy = arn.rpartition("/")[2]
            if policy in stack.resources:
                statements[policy] = _statements(stack.resources[policy]["Properties"])
        for policy, attached in stack.resources.items():
            if attached["Type"] == "AWS::IAM::Policy" and role in attached["Properties"]["Roles"]:
                statements[policy] = _statements(attached["Properties"])
        found[name] = Role(role, statements)
    return found


def _statements(policy: dict[str, Any]) -> list[dict[str, Any]]:
    return list(policy["PolicyDocument"]["Statement"])


def refused(roles: dict[str, Role], calls: Iterable[Call]) -> list[Call]:
    """The calls that IAM would refuse."""
    return [call for call in calls if not roles[call.function].allows(call)]


def unused(role: Role, calls: list[Call]) -> list[Grant]:
    """What the role grants and none of the calls needs: without it, all of them are allowed just
    the same."""
    return [grant for grant in role.grants() if _does_without(role.without(grant), calls)]


def _does_without(rest: Role, calls: list[Call]) -> bool:
    return all(rest.allows(call) for call in calls)
