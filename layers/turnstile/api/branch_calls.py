"""The function of branches (docs/branches.md): requests of the gateway, and invocations of other
functions, which have no pyarrow and ask for the log of a branch's table.

Only roles that may invoke the function send the latter. An event of the gateway never has the
member ``turnstile`` at its top.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from aws_lambda_powertools import Logger

from turnstile.adapters.branch_tables import OwnTableRequest, answer_of
from turnstile.api.http.handler import App
from turnstile.catalog.core.paths import dotted_name
from turnstile.store.core.errors import TurnstileError


class BranchCalls:
    """Handles the events of both kinds with the services of ``app``."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._logger = Logger(service="branches")

    def handle(self, event: Mapping[str, Any], context: Any) -> dict[str, Any]:
        """Returns the gateway's response, or an ``OwnTableAnswer``. An unexpected exception of an
        invocation is raised, so that Lambda counts it as an error of the function."""
        if "turnstile" not in event:
            return self._app(event, context)
        request = msgspec.convert(event, OwnTableRequest)
        name = dotted_name(request.catalog, *request.path)
        try:
            made = answer_of(self._app.services.open_reader.store.make_own(request.catalog, request.path))
            self._logger.info("own table", extra={"table": name, "head": made.head})
        except TurnstileError as error:
            made = answer_of(error)
            self._logger.warning("no own table", extra={"table": name, "type": error.type, "reason": error.message})
        answer: dict[str, Any] = msgspec.to_builtins(made)
        return answer
