"""Actions of follow-ups: a deployment names them, and the rules of tables may request them
(``turnstile.events.follow_ups``).

Each is a target that takes one event at once. Webhooks and buses come from ``event_targets``;
functions and Spark jobs are here.
"""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import msgspec

from turnstile.adapters import opening
from turnstile.adapters.event_targets import BadTarget, delivery_errors, open_targets
from turnstile.events.core.cloud_events import CloudEvent
from turnstile.events.deliver import EventTarget
from turnstile.store.ports import Clock

FUNCTION: Final = "lambda:"
SPARK: Final = "emr-serverless:"

_APPLICATION: Final = re.compile(r"[0-9a-z]{1,64}")
_WANTED: Final = {"role", "entry", "args", "spark"}


def open_actions(description: str, secret: str, clock: Clock) -> list[EventTarget]:
    """Returns the actions of ``NAME=URL NAME=URL ...``. Raises BadTarget.

    A URL is that of a webhook or a bus, as of event targets; ``lambda:ARN`` invokes a function;
    ``emr-serverless://APPLICATION?role= ARN&entry=s3://...&args=...&spark=...`` starts a job run.
    """
    return open_targets(description, secret, clock, {FUNCTION: _function, SPARK: _spark_job})


def _function(name: str, url: str) -> EventTarget:
    arn = url.removeprefix(FUNCTION)
    if not arn:
        raise BadTarget(f"the action '{name}' names no function: write lambda:ARN")
    return Function(name, arn)


def _spark_job(name: str, url: str) -> EventTarget:
    parts = urlsplit(url)
    query = parse_qs(parts.query, keep_blank_values=True)
    given = {key: values[-1] for key, values in query.items()}
    if (
        not _APPLICATION.fullmatch(parts.netloc)
        or not given.get("role")
        or not given.get("entry")
        or given.keys() - _WANTED
    ):
        raise BadTarget(
            f"the action '{name}' names no job: write emr-serverless://APPLICATION?role=ARN&entry=s3://BUCKET/FILE.py, "
            f"and perhaps "
            "args= and spark=, each encoded as in a URL"
        )
    return SparkJob(name, parts.netloc, given)


class Function:
    """Invokes a Lambda function with the CloudEvent, without waiting for it: Lambda has accepted
    it, and tries again by itself."""

    most: Final = 1

    def __init__(self, name: str, arn: str, client: Any = None) -> None:
        self.name = name
        self._arn = arn
        self._client = client

    def send(self, events: Sequence[CloudEvent]) -> None:
        """One invocation for each event. Raises NotDelivered."""
        if self._client is None:
            self._client = opening.functions()
        for event in events:
            with delivery_errors():
                self._client.invoke(FunctionName=self._arn, InvocationType="Event", Payload=msgspec.json.encode(event))


class SparkJob:
    """Starts a job run of EMR Serverless. The same event starts one run, however often it is sent:
    its id makes the client token.

    ``{table}`` (without the catalog), ``{catalog}``, ``{id}``, ``{first_version}`` and
    ``{version}`` in the arguments are replaced.
    """

    most: Final = 1

    def __init__(self, name: str, application: str, given: Mapping[str, str], client: Any = None) -> None:
        self.name = name
        self._application = application
        self._given = given
        self._client = client

    def send(self, events: Sequence[CloudEvent]) -> None:
        """Starts a run for each event. Raises NotDelivered."""
        if self._client is None:
            self._client = opening.emr_serverless()
        for event in events:
            with delivery_errors():
                self._client.start_job_run(**self.run_of(event))

    def run_of(self, event: CloudEvent) -> dict[str, Any]:
        """The request that starts the run for an event."""
        catalog, _, table = str(event.data.get("name", "")).partition(".")
        words = {"catalog": catalog, "table": table, "id": event.subject}
        words |= {name: str(event.data.get(name, "")) for name in ("first_version", "version")}
        arguments = [_fill_words(argument, words) for argument in shlex.split(self._given.get("args", ""))]
        submit: dict[str, Any] = {"entryPoint": self._given["entry"], "entryPointArguments": arguments}
        if self._given.get("spark"):
            submit["sparkSubmitParameters"] = self._given["spark"]
        return {
            "applicationId": self._application,
            "clientToken": hashlib.sha256(f"{self.name}/{event.id}".encode()).hexdigest()[:64],
            "executionRoleArn": self._given["role"],
            "name": f"turnstile {self.name} {table}"[:256],
            "jobDriver": {"sparkSubmit": submit},
        }


def _fill_words(argument: str, words: Mapping[str, str]) -> str:
    """``argument`` with words in braces replaced; other braces stay."""
    return re.sub(r"\{([a-z_]+)\}", lambda match: words.get(match[1], match[0]), argument)
