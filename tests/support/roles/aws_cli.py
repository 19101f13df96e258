"""``aws`` for tests, where there may be none: the service, the operation and the options of a
command line as botocore's models describe them, with ``--query``, ``--output text``, ``wait`` and
the shorthand ``Key=value,Key=value``. What it does not know fails.

    python tests/support/roles/aws_cli.py lambda put-function-concurrency
        --function-name f --reserved-concurrent-executions 0
"""

from __future__ import annotations

import json
import sys
from typing import Any

import botocore.session
import jmespath
from botocore import xform_name


def main(arguments: list[str]) -> int:
    """Carries out one command; returns its exit code."""
    service, operation, *rest = arguments
    client: Any = botocore.session.get_session().create_client(service)
    if operation == "wait":
        name, *rest = rest
        waiter = client.get_waiter(name.replace("-", "_"))
        asked = client.meta.service_model.operation_model(waiter.config.operation)
        waiter.wait(**given(asked.input_shape, options(rest)[0]), WaiterConfig={"Delay": 1, "MaxAttempts": 120})
        return 0
    named, files = options(rest)
    query = named.pop("query", None)
    form = named.pop("output", "json")
    named.pop("cli-binary-format", None)
    names = {xform_name(name, "-"): name for name in client.meta.service_model.operation_names}
    model = client.meta.service_model.operation_model(names[operation])
    answer = getattr(client, xform_name(names[operation]))(**given(model.input_shape, named))
    answer.pop("ResponseMetadata", None)
    if files:
        with open(files[0], "wb") as out:
            out.write(answer.pop("Payload").read())
    show(jmespath.search(query[0], answer) if query else answer, form if isinstance(form, str) else form[0])
    return 0


def options(words: list[str]) -> tuple[dict[str, list[str]], list[str]]:
    """The options with their values, and what belongs to none."""
    named: dict[str, list[str]] = {}
    loose: list[str] = []
    values = loose
    for word in words:
        if word.startswith("--"):
            values = named.setdefault(word[2:], [])
        elif values is not loose and word == "/dev/stdout":
            loose.append(word)
        else:
            values.append(word)
    return named, loose


def given(shape: Any, named: dict[str, list[str]]) -> dict[str, Any]:
    """The parameters of the operation. Raises KeyError for an option that it does not have."""
    members = {xform_name(name, "-"): name for name in shape.members}
    members |= {f"no-{option}": name for option, name in members.items()}
    return {
        members[option]: typed(shape.members[members[option]], values, positive=not option.startswith("no-"))
        for option, values in named.items()
    }


def typed(shape: Any, values: list[str], *, positive: bool = True) -> Any:
    """The values of an option as their shape wants them."""
    if shape.type_name == "list":
        return [typed(shape.member, [value]) for value in values]
    if shape.type_name == "boolean":
        return positive if not values else values[0] == "true"
    if shape.type_name in ("integer", "long"):
        return int(values[0])
    if shape.type_name == "blob":
        return values[0].encode()
    if shape.type_name == "structure":
        pairs = [pair.split("=", 1) for pair in values[0].split(",")]
        return {name: typed(shape.members[name], [value]) for name, value in pairs}
    return values[0]


def show(answer: Any, form: str) -> None:
    """Prints it as ``aws`` does."""
    if form != "text":
        if answer:
            print(json.dumps(answer, default=str, indent=4))
        return
    listed = answer if isinstance(answer, list) else [answer]
    print("\t".join("None" if one is None else str(one) for one in listed))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
