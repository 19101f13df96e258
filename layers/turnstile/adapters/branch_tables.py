"""Logs for tables of branches by another function, which carries pyarrow
(``catalog.core.branches.BranchTables``).

    1  look     whether the table has none yet: an external one never gets one
    2  invoke   the function, with the names of the branch and the table, and wait for its answer
    3  tree     of the branch at the HEAD that the answer names

The functions that serve clients load without pyarrow, and have no right to write a log for the
first time. A lost answer is no harm: the function goes on, and a request that comes again finds the
table with its log, or gives it another one. Nothing of the request itself has happened before.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from turnstile.adapters import opening
from turnstile.catalog.core.paths import Path, dotted_name
from turnstile.catalog.core.tree import Tree
from turnstile.catalog.reader import CatalogReader
from turnstile.store.core.errors import StorageFault, Throttled, TurnstileError, error_of, record_of

ANSWER_S: Final = 20.0
"""How long an answer is waited for: less than the function that waits has (template.yaml)."""

_AGAIN_MS: Final = 1_000
_BUSY: Final = frozenset(("TooManyRequestsException", "ServiceException", "EC2ThrottledException"))
"""Lambda's codes for an invocation that did not begin, and may a little later."""


class OwnTableRequest(msgspec.Struct, frozen=True, tag_field="turnstile", tag="own table"):
    """The event of an invocation: the table ``path`` of the branch ``catalog``."""

    catalog: str
    path: Path


class OwnTableAnswer(msgspec.Struct, frozen=True, omit_defaults=True):
    """``head`` of the branch, at which the table has a HEAD of its own; else ``error``, a
    ``record_of`` it."""

    catalog: str = ""
    head: str = ""
    error: dict[str, Any] | None = None


def answer_of(tree: Tree | TurnstileError) -> OwnTableAnswer:
    """Returns the answer of the function that was invoked."""
    if isinstance(tree, TurnstileError):
        return OwnTableAnswer(error=record_of(tree))
    return OwnTableAnswer(tree.catalog, tree.head)


class OwnTablesByFunction:
    """``BranchTables`` by the function of this name. ``reader`` is not a request's: the request was
    authorized before."""

    def __init__(self, function: str, reader: CatalogReader, client: Any = None) -> None:
        self._function = function
        self._reader = reader
        self._client = client

    def make_own(self, catalog: str, path: Path) -> Tree:
        """As ``BranchTables``. Raises the function's errors; Throttled where it is busy, or does
        not answer in time; StorageFault where it cannot be invoked, or fails."""
        tree, table = self._reader.find_inherited(catalog, path)
        if table is None:
            return tree
        answer = self._invoke(OwnTableRequest(catalog, path))
        if answer.error is not None:
            raise error_of(answer.error)
        tree = self._reader.store.tree(answer.catalog, answer.head)
        self._reader.adopt(tree)
        return tree

    def _invoke(self, request: OwnTableRequest) -> OwnTableAnswer:
        from botocore.exceptions import BotoCoreError, ClientError, ReadTimeoutError

        client = self._client or opening.answering_functions(ANSWER_S)
        name = dotted_name(request.catalog, *request.path)
        payload = msgspec.json.encode(request)
        try:
            answered = client.invoke(FunctionName=self._function, InvocationType="RequestResponse", Payload=payload)
            body = answered["Payload"].read()
        except ReadTimeoutError:
            raise Throttled(f"'{name}' gets a log of its own, which takes long", retry_after_ms=_AGAIN_MS) from None
        except ClientError as error:
            code = str(error.response.get("Error", {}).get("Code", ""))
            if code in _BUSY:
                raise Throttled(f"'{name}' has no log of its own yet ({code})", retry_after_ms=_AGAIN_MS) from error
            raise _no_answer(name, code) from error
        except BotoCoreError as error:
            raise _no_answer(name, type(error).__name__) from error
        if answered.get("FunctionError"):
            raise _no_answer(name, str(answered["FunctionError"]))
        return msgspec.json.decode(body, type=OwnTableAnswer)


def _no_answer(name: str, reason: str) -> StorageFault:
    problem = f"'{name}' has no log of its own yet: the function that writes it failed ({reason})"
    return StorageFault(problem, remedy="send the request again; if it fails, the function's log has the reason")
