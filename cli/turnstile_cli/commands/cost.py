"""``turnstile cost``: the price of a deployment on AWS, by the model in
``infra/turnstile_cost``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import typer

from turnstile_cli import output as out
from turnstile_cli.connection import Output
from turnstile_cli.output import Format

Commits = Annotated[float, typer.Option("--commits", min=0, help="Commits a month.")]
Staged = Annotated[float, typer.Option("--staged", min=0, max=1, help="Share of them that is staged, not inline.")]
PerBatch = Annotated[
    float, typer.Option("--per-batch", min=1, max=1000, help="How many come within a second; 1 where they come seldom.")
]
Tables = Annotated[int, typer.Option("--tables", min=0, help="Delta tables.")]
Bus = Annotated[bool, typer.Option("--bus", help="Events are sent to a bus of EventBridge.")]
Metrics = Annotated[
    Literal["alarms", "all", "none"], typer.Option("--metrics", help="The parameter MetricsDetail of the template.")
]
Operations = Annotated[
    int, typer.Option("--operations", min=0, help="Operations of the API in use, for --metrics all.")
]
Snapshots = Annotated[
    int,
    typer.Option(
        "--snapshots", min=0, help="Versions of the commit function kept as snapshots (SnapStart): usually 1."
    ),
]
Messages = Annotated[float, typer.Option("--messages", min=0, help="Messages with rows a month, by a queue.")]
MessageBytes = Annotated[int, typer.Option("--message-bytes", min=1, max=1_048_576, help="Bytes of each of them.")]
MessagesPerBatch = Annotated[
    float, typer.Option("--message-batch", min=1, max=1000, help="How many of one table come within a second.")
]
Watched = Annotated[bool, typer.Option("--watched/--unwatched", help="With alarms, metrics and the dashboard.")]


@out.report_errors
def cost(
    commits: Commits = 1_000_000,
    staged: Staged = 0.0,
    per_batch: PerBatch = 1.0,
    tables: Tables = 100,
    *,
    bus: Bus = False,
    metrics: Metrics = "alarms",
    operations: Operations = 0,
    messages: Messages = 0,
    message_bytes: MessageBytes = 1_000,
    messages_per_batch: MessagesPerBatch = 90,
    snapshots: Snapshots = 0,
    watched: Watched = True,
    output: Output = Format.TEXT,
) -> None:
    """Estimate the price of a month on AWS: commits, messages with rows, the work that follows
    them, and the idle deployment.

    Requests, capacity units and bytes are counted by tests; prices are the list prices of one
    region and date, without free tiers. Storage of data files, data transfer and the engines are
    not in it.
    """
    import turnstile_cost as model

    at = model.prices()
    used = model.commits(model.Workload(commits=commits, staged=staged, per_batch=per_batch, bus=bus))
    deployment = model.Idle(tables=tables, metrics=metrics, snapshots=snapshots)
    parts: dict[str, Mapping[str, Mapping[str, float]]] = {
        "commits": {step: model.dollars(usage, at) for step, usage in used.items()},
        "idle": {step: model.dollars(usage, at) for step, usage in model.idle(deployment).items()},
        "watching": {what: {"CloudWatch": price} for what, price in model.watching(deployment, at).items()}
        if watched
        else {},
    }
    sent = model.Messages(messages, message_bytes, messages_per_batch)
    if messages:
        parts["messages"] = {step: model.dollars(usage, at) for step, usage in model.messages(sent).items()}
    if snapshots:
        kept = {"snapshots": {"Lambda": model.warmth(deployment, at)["snapshots"]}}
        parts["idle"] = {**parts["idle"], **kept}
    if watched and commits and metrics == "all":  # each figure of each run has a value in every hour
        parts["watching"] = {
            **parts["watching"],
            "metrics": {"CloudWatch": model.most_metrics(metrics, operations) * at.metric_month},
        }
    totals = {part: sum(sum(by.values()) for by in steps.values()) for part, steps in parts.items()}
    if output is Format.JSON:
        out.emit_json(
            {
                "as_of": at.as_of,
                "region": at.region,
                "dollars": parts,
                "totals": totals,
                "total": sum(totals.values()),
                "round_days": model.round_days(deployment),
            }
        )
        return
    rows: list[tuple[Any, ...]] = []
    for part, steps in parts.items():
        rows += [
            (part, step, _money(sum(by.values())), _largest(by)) for step, by in steps.items() if sum(by.values()) > 0
        ]
        rows.append((part, "in all", _money(totals[part]), ""))
    rows.append(("month", "in all", _money(sum(totals.values())), ""))
    out.table("", ("", "what", "#dollars", "most of it"), rows, empty="")
    slowest = ", ".join(f"{part} {days:,.1f}" for part, days in model.round_days(deployment).items() if days > 1)
    if slowest:
        out.say(f"[dim]days until schedules have looked at every row: {slowest} (docs/deploy.md)[/dim]")
    if messages:
        out.say(
            f"[dim]Firehose, without the store's requests, for these messages: {_money(model.firehose(sent, at))}[/dim]"
        )
    out.say(f"[dim]list prices of {at.region}, {at.as_of}[/dim]")


def _money(amount: float) -> str:
    return f"{amount:,.2f}"


def _largest(by_service: Mapping[str, float]) -> str:
    """The services that make up most of it."""
    largest = sorted(by_service.items(), key=lambda item: -item[1])[:2]
    return ", ".join(f"{service} {_money(amount)}" for service, amount in largest if amount >= 0.005)
