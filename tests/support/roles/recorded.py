"""The calls of every function on all its paths, with the roles that judged them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

import pytest

from tests.support.repository import ROOT
from tests.support.roles.lambda_calls import calls_of_lambda
from tests.support.roles.parameters import EVERYTHING
from tests.support.roles.paths import Paths
from tests.support.roles.policies import Call, Role, roles_of
from tests.support.roles.recorder import Recorder
from tests.support.roles.resolved import Resolved
from tests.support.roles.world import IMPORTS, LAKE, make_buckets
from tests.support.store.backends import MINISTACK
from tests.support.store.servers import Servers
from turnstile_local.deployment import read_template

FUNCTIONS: Final = [
    name
    for name, resource in read_template(ROOT / "template.yaml")["Resources"].items()
    if resource["Type"] == "AWS::Serverless::Function"
]


class Recorded(NamedTuple):
    """The results of all paths."""

    roles: dict[str, Role]
    recorder: Recorder
    paths: Paths
    calls: dict[str, list[Call]]

    def summary(self) -> str:
        """Different calls and calls by function."""
        times = Counter[str]()
        for call, count in self.recorder.calls.items():
            times[call.function] += count
        return "\n".join(f"{name}: {len(self.calls[name])} different, {times[name]} in all" for name in FUNCTIONS)


@contextmanager
def recorded_calls(servers: Servers) -> Iterator[Recorded]:
    """Runs all paths on an emulator's tables and buckets; the calls of the block are recorded,
    too."""
    files = servers.get(MINISTACK)
    make_buckets(files)
    stack = Resolved(read_template(ROOT / "template.yaml"), EVERYTHING)
    roles = roles_of(stack)
    recorder = Recorder(roles, lake=LAKE, imports=IMPORTS, parameters=EVERYTHING)
    with pytest.MonkeyPatch.context() as patch:
        paths = Paths(servers.dynamodb(), files, recorder, stack, patch)
        paths.all()
        calls = {name: [*recorder.of(name), *calls_of_lambda(stack, name)] for name in FUNCTIONS}
        yield Recorded(roles, recorder, paths, calls)
