"""``turnstile top``: the present activity of a service, as the difference of two readings of its
counters and its tables' HEADs."""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from rich.console import Group, RenderableType
from rich.markup import escape

from turnstile_cli import output as out
from turnstile_cli.api import Api
from turnstile_cli.connection import with_api
from turnstile_cli.output import Format
from turnstile_cli.screens import Count, Every, grid, repeat

MOST_TABLES: Final = 5_000
"""Tables whose HEADs are read; further ones are left out, with a note."""

MOST_ROWS: Final = 12
"""Rows of each list on the screen."""

_COMMIT_OPERATIONS: Final = (
    "POST /v1/tables/{table_id}/commits",
    "/transactions",
    "/delta/preview/commits",
    "tables/{table}",
)
"""How the names of operations end that commit to tables."""

Labels = tuple[tuple[str, str], ...]
Figures = Mapping[tuple[str, Labels], float]


@dataclass(frozen=True, slots=True)
class Reading:
    """One reading. ``figures`` is None if the service has none: a deployment's are in
    CloudWatch."""

    at_s: float
    figures: Figures | None
    heads: Mapping[str, Mapping[str, Any]]
    complete: bool
    members: tuple[Mapping[str, Any], ...]


@with_api
def top(api: Api, *, every: Every = 2.0, count: Count = None, output: Format) -> None:
    """Show the present activity of the service: commits, rows over HTTP, conflicts, lag of
    publishing, the busiest operations and tables.

    On a terminal the screen is drawn anew every two seconds until Ctrl-C; elsewhere it is printed
    once. -o json prints one object for each interval. A deployment has no figures of requests here:
    they are in its CloudWatch dashboard.
    """
    repeat(
        lambda: read(api), summary, lambda document: render(document, api.url), every=every, count=count, output=output
    )


def read(api: Api) -> Reading:
    """Reads the service's counters, HEADs and fleet now. Raises CliError: the token has to be an
    administrator's."""
    exposition = api.text("/metrics")
    heads: dict[str, dict[str, Any]] = {}
    complete = True
    for head in api.heads():
        if len(heads) >= MOST_TABLES:
            complete = False
            break
        if head["state"] != "dropped":
            heads[head["table_id"]] = head
    members = tuple(api.get("/v1/fleet")["members"])
    figures = None if exposition is None else parse(exposition)
    return Reading(time.monotonic(), figures, heads, complete, members)


def parse(exposition: str) -> Figures:
    """Returns the samples of Prometheus' text format by name and labels."""
    from prometheus_client.parser import text_string_to_metric_families

    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(exposition)
        for sample in family.samples
    }


def summary(before: Reading, after: Reading) -> dict[str, Any]:
    """Returns the changes between two readings, and the state at the second.

    A counter that is lower than before belongs to a restarted server: its value has been counted
    since the restart.
    """
    seconds = max(after.at_s - before.at_s, 1e-9)
    rates = {
        table_id: max(0, head["latest"] - before.heads[table_id]["latest"]) / seconds
        if table_id in before.heads
        else 0.0
        for table_id, head in after.heads.items()
    }
    tables = [
        {
            "name": head["name"],
            "state": head["state"],
            "latest": head["latest"],
            "unpublished": head["latest"] - head["floor"],
            "commits_per_s": round(rates[table_id], 2),
        }
        for table_id, head in after.heads.items()
    ]
    busiest = sorted(
        tables, key=lambda row: (row["state"] == "active", -row["commits_per_s"], -row["unpublished"], row["name"])
    )
    document: dict[str, Any] = {
        "seconds": round(seconds, 2),
        "tables": len(tables),
        "complete": after.complete,
        "tables_behind": sum(row["unpublished"] > 0 for row in tables),
        "tables_stopped": sum(row["state"] in ("stuck", "recovering") for row in tables),
        "commits_unpublished": sum(row["unpublished"] for row in tables),
        "commits_per_s": round(sum(rates.values()), 2),
        "busiest": busiest[:MOST_ROWS],
        "members": list(after.members),
        "requests": None,
    }
    if after.figures is not None:
        document["requests"] = _requests(_difference(before.figures or {}, after.figures), after.figures, seconds)
    return document


def _difference(before: Figures, after: Figures) -> Figures:
    return {key: value - (earlier if (earlier := before.get(key, 0.0)) <= value else 0) for key, value in after.items()}


def _requests(counted: Figures, now: Figures, seconds: float) -> dict[str, Any]:
    """The rates of an interval, from a server's counters."""
    statuses: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for (name, labels), value in counted.items():
        if name == "turnstile_requests_total":
            of = dict(labels)
            statuses[of["operation"]][of["status"]] += value
    operations: list[dict[str, Any]] = [
        {
            "operation": operation,
            "per_s": round(sum(by_status.values()) / seconds, 2),
            "refused_per_s": round(sum(n for status, n in by_status.items() if status[0] == "4") / seconds, 2),
            "failed_per_s": round(sum(n for status, n in by_status.items() if status[0] == "5") / seconds, 2),
            **_quantiles(counted, "turnstile_request_seconds", operation=operation),
        }
        for operation, by_status in statuses.items()
        if sum(by_status.values())
    ]
    commits = [
        by
        for operation, by in statuses.items()
        if operation.startswith("POST ") and operation.endswith(_COMMIT_OPERATIONS)
    ]
    ratified, conflicts = (sum(by.get(status, 0.0) for by in commits) for status in ("200", "409"))
    swept_s = next((value for (name, _), value in now.items() if name == "turnstile_swept_seconds"), None)
    published = _total(counted, "turnstile_published_versions_total")
    rows = _total(counted, "turnstile_rows_added_total")
    return {
        "conflicts_percent": round(100 * conflicts / (ratified + conflicts), 1) if ratified + conflicts else None,
        "published_per_s": round(published / seconds, 2),
        "rows_per_s": round(rows / seconds, 2),
        "publish_lag": _quantiles(counted, "turnstile_publish_lag_seconds"),
        "swept_at": None if not swept_s else int(swept_s * 1000),
        "operations": sorted(operations, key=lambda row: (-row["per_s"], row["operation"]))[:MOST_ROWS],
    }


def _total(counted: Figures, counter: str) -> float:
    return sum(value for (name, _), value in counted.items() if name == counter)


def _quantiles(counted: Figures, histogram: str, **labels: str) -> dict[str, float | None]:
    """``p50_ms`` and ``p99_ms`` of a histogram; None where it counted nothing."""
    buckets = sorted(
        (float(of["le"]), value)
        for (name, pairs), value in counted.items()
        if name == f"{histogram}_bucket" and labels.items() <= (of := dict(pairs)).items()
    )
    return {"p50_ms": quantile_ms(0.5, buckets), "p99_ms": quantile_ms(0.99, buckets)}


def quantile_ms(share: float, buckets: list[tuple[float, float]]) -> float | None:
    """Returns the quantile ``share`` of a histogram in milliseconds, by the method of Prometheus'
    ``histogram_quantile``.

    ``buckets`` are upper bounds in seconds, ascending and the last infinite, with the count of
    times at or below each. Times are assumed to be spread evenly in a bucket; times beyond the last
    finite bound count as that bound. None if nothing was counted.
    """
    if not buckets or not buckets[-1][1]:
        return None
    rank = share * buckets[-1][1]
    lower_s = 0.0
    below = 0.0
    for upper_s, count in buckets:
        if math.isinf(upper_s):
            break
        if count >= rank:
            within = (rank - below) / (count - below) if count > below else 1.0
            return round((lower_s + (upper_s - lower_s) * within) * 1000, 1)
        lower_s = upper_s
        below = count
    return round(lower_s * 1000, 1)


def render(document: Mapping[str, Any], url: str) -> RenderableType:
    """Returns the screen for people."""
    requests = document["requests"]
    count = document["tables"] if document["complete"] else f"the first {document['tables']}"
    parts: list[RenderableType] = [
        f"[bold]{escape(url)}[/bold]  {time.strftime('%H:%M:%S')}",
        f"{count} tables, {document['tables_behind']} behind ({document['commits_unpublished']} commits), "
        + _mark(f"{document['tables_stopped']} stuck or recovering", document["tables_stopped"] > 0),
    ]
    if requests is None:
        parts.append(f"commits {document['commits_per_s']}/s   [dim]no figures of requests here[/dim]")
    else:
        lag = requests["publish_lag"]
        refused = requests["conflicts_percent"]
        swept = (
            "not yet" if requests["swept_at"] is None else f"{out.span(time.time() * 1000 - requests['swept_at'])} ago"
        )
        rows = f"rows {requests['rows_per_s']}/s   " if requests["rows_per_s"] else ""
        parts.append(
            f"commits {document['commits_per_s']}/s   {rows}conflicts {'none' if not refused else f'{refused} %'}   "
            f"published {requests['published_per_s']}/s, lag p50 {_ms(lag['p50_ms'])} p99 {_ms(lag['p99_ms'])}   sweep "
            f"{swept}"
        )
        parts += grid(
            ("operation", "#a second", "#p50", "#p99", "#refused", "#failed"),
            requests["operations"],
            lambda row: (row["operation"], row["per_s"], _ms(row["p50_ms"]), _ms(row["p99_ms"]),
                         row["refused_per_s"] or "", row["failed_per_s"] or ""),
        )  # fmt: skip
    parts += grid(
        ("table", "state", "#latest", "#unpublished", "#commits a second"),
        document["busiest"],
        lambda row: (row["name"], row["state"], row["latest"], row["unpublished"] or "", row["commits_per_s"] or ""),
    )
    parts += grid(
        ("member", "state", "#granules", "last sign of life"),
        document["members"][:MOST_ROWS],
        lambda member: (member["name"], member["state"], member["owned"], out.when(member["shown_at"])),
    )
    return Group(*parts)


def _ms(value: float | None) -> str:
    """A time of requests; below ten milliseconds with a tenth."""
    if value is None:
        return "–"
    return f"{value:.1f} ms" if value < 10 else out.span(value)


def _mark(text: str, bad: bool) -> str:
    return f"[bold red]{text}[/bold red]" if bad else text
