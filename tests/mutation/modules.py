"""The modules that are mutated: the kinds of mutants of each, and the tests that notice them
soonest. All of them are in one table: a module that builds conditional writes and is missing fails
a test, and so does a pattern that matches no test file.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.support.repository import ROOT

LAYER: Final = ROOT / "layers"
CLIENTS: Final = {"turnstile_spark": ROOT / "spark_client", "turnstile_client": ROOT / "python_client"}


@dataclass(frozen=True)
class Mutated:
    """
    Args:
        nearest: tests to run, soonest first, as globs below ``tests``.
        writes: it builds conditional writes: each clause always holds; each action does nothing.
        decides: it decides: each branch is never taken; each operand of ``and`` and ``or`` counts
            for nothing; each comparison is off by one.
        guards: it carries out what is decided elsewhere: each call that only checks is left out;
            each ``+`` and ``-`` of a comparison is the other; each operand of an ``and`` or ``or``
            that is kept or returned counts for nothing; each member that a copy replaces stays as
            it was.
    """

    nearest: tuple[str, ...]
    writes: bool = True
    decides: bool = False
    guards: bool = False


_CLAUSES = "unit/store/test_conditional_writes.py"
_RATIFIED = (
    "unit/delta/test_decide_*.py",
    "unit/delta/test_write_agrees_with_decision.py",
    "unit/delta/test_ratified_once_and_in_bounds.py",
    "unit/delta/test_late_and_doubled_writes.py",
)
_PLANNED = (
    "unit/planning/test_remembered.py",
    "unit/planning/test_index.py",
    "unit/planning/test_totals.py",
    "unit/planning/test_appends.py",
    "unit/planning/test_evolving.py",
    "unit/planning/test_survey.py",
    "unit/transactions/test_judged_reads.py",
    "functional/planning/*.py",
    "functional/iceberg/test_delta_tables.py",
)
_READ = (
    "unit/python_client/test_reading.py",
    "unit/python_client/test_mapped_columns.py",
    "unit/python_client/test_pure_parts.py",
    "unit/python_client/test_vectors.py",
    "unit/planning/test_samples.py",
)
_CONTENT = (
    "unit/delta/test_content.py",
    "unit/delta/test_definition.py",
    "unit/delta/test_schemas.py",
    "unit/delta/test_table_rules.py",
    "functional/v1/test_commit_bad_content.py",
)
_CATALOG = ("unit/catalog/test_*.py", "unit/history/test_*.py", "unit/clone/test_*.py")
_UNDROPPED = ("unit/history/test_undrop*.py", "functional/catalog/test_undrop.py")

MODULES: Final = {
    "turnstile.delta.core.writes.ratify": Mutated(
        (
            *(_CLAUSES, *_RATIFIED, "unit/delta/test_floor.py"),
            *("unit/transactions/test_groups.py", "unit/repair/test_*.py", "unit/delta/test_*.py"),
        ),
        decides=True,
    ),
    "turnstile.delta.core.writes.shared": Mutated(
        (_CLAUSES, "unit/shared_commits/test_shared_writes.py", "unit/shared_commits/test_shared_commits.py"),
        decides=True,
        guards=True,
    ),
    "turnstile.delta.ratify": Mutated(
        (
            "unit/shared_commits/test_shared_commits.py",
            *_RATIFIED,
            "unit/delta/test_refusals_after_lost_attempts.py",
            "unit/transactions/test_large_groups.py",
        ),
        writes=False,
        decides=True,
        guards=True,
    ),
    "turnstile.store.queue": Mutated(
        ("unit/change_groups/test_group_commit.py", "unit/shared_commits/test_shared_commits.py"),
        writes=False,
        decides=True,
        guards=True,
    ),
    "turnstile.delta.core.decide": Mutated(
        (*_RATIFIED, "unit/transactions/test_groups.py", "unit/delta/test_*.py", "unit/transactions/test_*.py"),
        writes=False,
        decides=True,
    ),
    "turnstile.delta.core.head": Mutated(
        (*_RATIFIED, "unit/delta/test_ticket_bytes.py", "unit/delta/test_*.py"), writes=False, decides=True
    ),
    "turnstile.delta.core.undecided": Mutated(
        (
            _CLAUSES,
            "unit/transactions/test_large_groups.py",
            "unit/delta/test_write_agrees_with_decision.py",
            "unit/gc/test_groups.py",
        ),
        decides=True,
    ),
    "turnstile.delta.core.actions": Mutated(_CONTENT, writes=False, decides=True),
    "turnstile.delta.core.content": Mutated((*_CONTENT, "unit/delta/test_ticket_bytes.py"), writes=False, decides=True),
    "turnstile.delta.core.features": Mutated(
        ("functional/transfer/test_foreign_tables.py", "unit/maintenance/test_core.py"), writes=False, decides=True
    ),
    "turnstile.delta.core.definition": Mutated(_CONTENT, writes=False, decides=True),
    "turnstile.delta.core.schemas": Mutated(_CONTENT, writes=False, decides=True),
    "turnstile.delta.core.writes.state": Mutated(
        (
            _CLAUSES,
            "unit/delta/test_publish*.py",
            "unit/repair/test_*.py",
            "unit/delta/test_*.py",
            *_CATALOG,
            "unit/gc/test_t*.py",
        )
    ),
    "turnstile.store.core.terms": Mutated(("unit/store/test_terms.py",), writes=False, decides=True, guards=True),
    "turnstile.catalog.core.rows": Mutated((_CLAUSES, "unit/catalog/test_clauses.py", *_CATALOG, "unit/gc/test_*.py")),
    "turnstile.fleet.core.owners": Mutated(("unit/fleet/test_owners.py",), writes=False, decides=True, guards=True),
    "turnstile.fleet.core.shares": Mutated(("unit/fleet/test_shares.py",), writes=False, decides=True, guards=True),
    "turnstile.fleet.core.roles": Mutated(("unit/fleet/test_shares.py",), writes=False, decides=True, guards=True),
    "turnstile.fleet.core.changes": Mutated(
        ("unit/fleet/test_fleet_changes.py",), writes=False, decides=True, guards=True
    ),
    "turnstile.fleet.core.forwarded": Mutated(
        ("unit/fleet/test_forwarded.py",), writes=False, decides=True, guards=True
    ),
    "turnstile.catalog.core.grouping": Mutated(
        ("unit/change_groups/test_grouping.py",), writes=False, decides=True, guards=True
    ),
    "turnstile.catalog.changes.group_commit": Mutated(
        ("unit/change_groups/test_group_commit.py", "unit/catalog/test_turns.py"),
        writes=False,
        decides=True,
        guards=True,
    ),
    "turnstile.transfer.relocation": Mutated(("functional/transfer/test_relocation.py",)),
    "turnstile.catalog.core.location_rows": Mutated(
        (
            _CLAUSES,
            *_CATALOG,
            "unit/gc/test_*.py",
            "functional/transfer/test_import*.py",
            "functional/transfer/test_relocation.py",
        )
    ),
    "turnstile.catalog.core.request_rows": Mutated(
        ("unit/coordination/test_reference_and_request_rows.py", "unit/catalog/test_*.py")
    ),
    "turnstile.catalog.clone.core": Mutated(("unit/catalog/test_clauses.py", "unit/clone/test_*.py")),
    "turnstile.catalog.catalogs": Mutated(("unit/catalog/test_*.py", "functional/access/test_changes.py")),
    "turnstile.catalog.external": Mutated(_CATALOG),
    "turnstile.catalog.history.undrop": Mutated(_UNDROPPED, writes=False, decides=True, guards=True),
    "turnstile.catalog.history.dropped": Mutated(_UNDROPPED, writes=False, decides=True, guards=True),
    "turnstile.access.undrop_rights": Mutated(_UNDROPPED, writes=False, decides=True),
    "turnstile.catalog.create": Mutated(_CATALOG),
    "turnstile.catalog.awaited": Mutated(("unit/catalog/test_awaited.py", *_CATALOG), guards=True),
    "turnstile.access.core.client_rows": Mutated(("unit/auth/test_registered_clients.py", "unit/access/test_*.py")),
    "turnstile.coordination.core.named_ref": Mutated(
        (
            "unit/coordination/test_reference_and_request_rows.py",
            "unit/coordination/test_named_references.py",
            "unit/gc/test_refs.py",
            "unit/access/test_reference_rights.py",
        )
    ),
    "turnstile.coordination.core.ref_rights": Mutated(("unit/access/test_reference_rights.py",)),
    "turnstile.maintenance.core.due": Mutated(
        ("unit/maintenance/test_core.py",), writes=False, decides=True, guards=True
    ),
    "turnstile.delta.core.soundness": Mutated(
        ("unit/soundness/test_soundness.py", "unit/repair/test_verify.py", "functional/damage/*.py"),
        writes=False,
        decides=True,
        guards=True,
    ),
    "turnstile.delta.soundness.judge": Mutated(
        (
            "unit/soundness/test_log_judge.py",
            "unit/soundness/test_soundness.py",
            "unit/repair/test_verify.py",
            "functional/damage/*.py",
        ),
        writes=False,
        decides=True,
        guards=True,
    ),
    "turnstile.coordination.heartbeat": Mutated(
        ("unit/coordination/test_heartbeat.py",), writes=False, decides=True, guards=True
    ),
    "turnstile.maintenance.reliance": Mutated(
        ("unit/maintenance/test_reliance.py", "unit/gc/test_log.py", "functional/damage/*.py"),
        writes=False,
        decides=True,
        guards=True,
    ),
    "turnstile.delta.core.segments": Mutated(
        ("unit/maintenance/test_state.py",), writes=False, decides=True, guards=True
    ),
    "turnstile.maintenance.core.upkeep": Mutated(
        ("unit/maintenance/test_core.py",), writes=False, decides=True, guards=True
    ),
    "turnstile.maintenance.core.parsed": Mutated(("unit/maintenance/test_core.py",), writes=False, decides=True),
    "turnstile.delta.core.pointer": Mutated(("unit/maintenance/test_core.py",), writes=False, decides=True),
    "turnstile.maintenance.state": Mutated(
        ("unit/maintenance/test_state.py", "unit/maintenance/test_work.py"), writes=False, decides=True
    ),
    "turnstile.maintenance.file_actions": Mutated(
        ("unit/maintenance/test_state.py", "unit/maintenance/test_work.py"), writes=False, decides=True
    ),
    "turnstile.maintenance.compaction": Mutated(
        ("unit/maintenance/test_work.py",), writes=False, decides=True, guards=True
    ),
    "turnstile.maintenance.checkpoint": Mutated(
        (
            "unit/maintenance/test_checkpoint.py",
            "unit/maintenance/test_work.py",
            "functional/damage/test_lost_answers_of_files.py",
        ),
        writes=False,
        decides=True,
        guards=True,
    ),
    "turnstile.delta.log.cached_commits": Mutated(
        ("unit/delta/test_cached_commits.py",), writes=False, decides=True, guards=True
    ),
    "turnstile.maintenance.work": Mutated(("unit/maintenance/test_work.py",), writes=False, decides=True, guards=True),
    "turnstile.catalog.core.policies": Mutated(("unit/maintenance/test_policies.py",), writes=False, decides=True),
    "turnstile.catalog.core.windows": Mutated(("unit/maintenance/test_policies.py",), writes=False, decides=True),
    "turnstile.maintenance.core.candidates": Mutated(
        ("unit/maintenance/test_candidates.py",), writes=False, decides=True
    ),
    "turnstile.maintenance.runs": Mutated(
        ("functional/maintenance/test_policies_and_runs.py",), writes=False, decides=True, guards=True
    ),
    "turnstile.planning.core.predicates": Mutated(("unit/planning/test_predicates.py",), writes=False, decides=True),
    "turnstile.planning.core.sql": Mutated(
        ("unit/planning/test_predicates.py", "functional/planning/test_found_files.py"), writes=False, decides=True
    ),
    "turnstile.planning.core.files": Mutated(("functional/planning/test_found_files.py",), writes=False, decides=True),
    "turnstile.planning.finding": Mutated(
        ("functional/planning/test_found_files.py",), writes=False, decides=True, guards=True
    ),
    "turnstile.planning.planner": Mutated(_PLANNED, writes=False, decides=True, guards=True),
    "turnstile.planning.pages": Mutated(_PLANNED, writes=False, decides=True),
    "turnstile.planning.upkeep": Mutated(_PLANNED, writes=False, decides=True, guards=True),
    "turnstile.planning.changes": Mutated(_PLANNED, writes=False, decides=True, guards=True),
    "turnstile.planning.index": Mutated(_PLANNED, writes=False, decides=True, guards=True),
    "turnstile.planning.leaves": Mutated(_PLANNED, writes=False, decides=True),
    "turnstile.planning.survey": Mutated(
        ("unit/planning/test_survey.py", "functional/maintenance/test_policies_and_runs.py"), writes=False, decides=True
    ),
    "turnstile.planning.reads": Mutated(
        ("unit/transactions/test_judged_reads.py", "functional/planning/test_plans_over_http.py"),
        writes=False,
        decides=True,
        guards=True,
    ),
    "turnstile.delta.transactions.group_reads": Mutated(
        (
            "unit/transactions/test_judged_reads.py",
            "unit/transactions/test_groups.py",
            "unit/transactions/test_large_groups.py",
        ),
        writes=False,
        decides=True,
        guards=True,
    ),
    "turnstile_predicates.conflicts": Mutated(
        ("unit/transactions/test_judged_reads.py", "unit/spark_client/test_conflict_*.py"), writes=False, decides=True
    ),
    "turnstile.planning.appends": Mutated(
        ("unit/planning/test_appends.py", "functional/iceberg/test_delta_tables.py"),
        writes=False,
        decides=True,
        guards=True,
    ),
    "turnstile.planning.core.generated": Mutated(("unit/planning/test_generated.py",), writes=False, decides=True),
    "turnstile.planning.core.roots": Mutated(("unit/planning/test_roots.py",), writes=False, decides=True),
    "turnstile.planning.judging": Mutated(("unit/planning/test_judging.py",), writes=False, decides=True),
    "turnstile.planning.totals": Mutated(("unit/planning/test_totals.py",), writes=False, decides=True),
    "turnstile.planning.core.statistics": Mutated(("unit/planning/test_predicates.py",), writes=False, decides=True),
    "turnstile.planning.file_rows": Mutated(
        ("unit/planning/test_samples.py", "unit/expectations/test_expectations.py"),
        writes=False,
        decides=True,
        guards=True,
    ),
    "turnstile.planning.read_budget": Mutated(
        ("unit/planning/test_samples.py", "unit/expectations/test_expectations.py"),
        writes=False,
        decides=True,
        guards=True,
    ),
    "turnstile.expectations.core.conditions": Mutated(
        ("unit/expectations/test_expectations.py",), writes=False, decides=True, guards=True
    ),
    "turnstile.expectations.core.row_outcomes": Mutated(
        ("unit/expectations/test_expectations.py",), writes=False, decides=True, guards=True
    ),
    "turnstile.expectations.core.by_statistics": Mutated(
        ("unit/expectations/test_expectations.py",), writes=False, decides=True
    ),
    "turnstile.expectations.row_check": Mutated(
        ("unit/expectations", "functional/expectations"), writes=False, decides=True, guards=True
    ),
    "turnstile.expectations.table_check": Mutated(
        ("unit/expectations", "functional/expectations"), writes=False, decides=True, guards=True
    ),
    "turnstile.expectations.at_commit": Mutated(
        ("unit/expectations", "functional/expectations"), writes=False, decides=True, guards=True
    ),
    "turnstile.expectations.core.validity": Mutated(
        ("unit/expectations/test_validity.py", "unit/expectations/test_expectations.py"),
        writes=False,
        decides=True,
        guards=True,
    ),
    "turnstile.expectations.delta_source": Mutated(
        ("unit/expectations", "functional/expectations/test_promotion.py"), writes=False, decides=True, guards=True
    ),
    "turnstile.iceberg.expectations.source": Mutated(
        ("functional/expectations",), writes=False, decides=True, guards=True
    ),
    "turnstile.iceberg.expectations.file_columns": Mutated(
        ("functional/expectations",), writes=False, decides=True, guards=True
    ),
    "turnstile.iceberg.expectations.deleted_rows": Mutated(
        ("functional/expectations/test_iceberg_files.py",), writes=False, decides=True, guards=True
    ),
    "turnstile.expectations.core.measures": Mutated(
        ("unit/expectations/test_findings.py", "unit/expectations/test_whole_tables.py"), writes=False, decides=True
    ),
    "turnstile.expectations.core.findings": Mutated(
        ("unit/expectations/test_findings.py",), writes=False, decides=True
    ),
    "turnstile.branches.records": Mutated(
        ("functional/expectations/test_records.py",), writes=False, decides=True, guards=True
    ),
    "turnstile.branches.checks": Mutated(("functional/expectations",), writes=False, decides=True, guards=True),
    "turnstile.branches.checked_tables": Mutated(("functional/expectations",), writes=False, decides=True, guards=True),
    "turnstile.branches.namespaces": Mutated(("functional/expectations",), writes=False, decides=True, guards=True),
    "turnstile.planning.sample": Mutated(
        ("unit/planning/test_samples.py", "functional/planning/test_samples_over_http.py"),
        writes=False,
        decides=True,
        guards=True,
    ),
    "turnstile.planning.core.shown_rows": Mutated(
        ("unit/planning/test_shown_rows.py", "unit/ingest/test_properties.py"), writes=False, decides=True
    ),
    "turnstile.branches.core.net_change": Mutated(
        ("unit/branches/test_net_change.py", "functional/branches"), writes=False, decides=True, guards=True
    ),
    "turnstile.branches.core.paths": Mutated(("unit/branches/test_net_change.py",), writes=False, decides=True),
    "turnstile.branches.core.registry": Mutated(("unit/branches/test_registry.py",), writes=False, decides=True),
    "turnstile.branches.core.asked_names": Mutated(
        ("functional/access/test_promotion_rights.py",), writes=False, decides=True
    ),
    "turnstile.branches.promotion_rights": Mutated(
        ("functional/access/test_promotion_rights.py",), writes=False, decides=True
    ),
    "turnstile.branches.core.differences": Mutated(("functional/branches",), writes=False, decides=True),
    "turnstile.catalog.core.branches": Mutated(
        ("functional/branches", "functional/unity/test_credentials.py"), writes=False, decides=True, guards=True
    ),
    "turnstile.branches.commits": Mutated(("unit/branches/test_promotion_reads.py",), writes=False, decides=True),
    "turnstile.branches.comparison": Mutated(
        ("functional/branches", "unit/branches/test_promotion_reads.py"), writes=False, decides=True, guards=True
    ),
    "turnstile.branches.promotion": Mutated(
        ("functional/branches", "functional/expectations/test_records.py", "simulation/clients/test_branches.py"),
        writes=True,
        decides=True,
        guards=True,
    ),
    "turnstile.branches.update": Mutated(
        ("functional/branches", "simulation/clients/test_branches.py"), writes=False, decides=True, guards=True
    ),
    "turnstile.branches.unchanged": Mutated(("functional/branches",), writes=False, decides=True),
    "turnstile.branches.refusals": Mutated(
        ("functional/branches", "functional/access/test_promotion_rights.py"), writes=False, decides=True
    ),
    "turnstile.branches.net_commits": Mutated(("functional/branches",), writes=False, decides=True),
    "turnstile.branches.core.entities": Mutated(("functional/branches",), writes=False, decides=True),
    "turnstile.branches.tables": Mutated(
        ("functional/branches", "simulation/clients/test_branches.py"), writes=True, decides=True, guards=True
    ),
    "turnstile.catalog.changes.waiting": Mutated(("functional/branches",), writes=True, decides=True, guards=True),
    "turnstile.catalog.branches": Mutated(
        ("functional/branches", "unit/gc/test_branches.py"), writes=True, decides=True, guards=True
    ),
    "turnstile_rows.reading": Mutated(_READ, writes=False, decides=True),
    "turnstile_rows.vectors": Mutated(_READ, writes=False, decides=True, guards=True),
    "turnstile_rows.shapes": Mutated(_READ, writes=False, decides=True),
    "turnstile_rows.partitions": Mutated(("unit/ingest/test_files.py", *_READ), writes=False, decides=True),
    "turnstile_rows.statistics": Mutated(
        ("unit/python_client/test_pure_parts.py", "unit/python_client/test_rewrites.py", "unit/ingest/test_files.py"),
        writes=False,
        decides=True,
    ),
    "turnstile_client.core.filters": Mutated(_READ, writes=False, decides=True, guards=True),
    "turnstile_client.reading": Mutated(_READ, writes=False, decides=True, guards=True),
    "turnstile.ingest.core.identity": Mutated(
        ("unit/ingest/test_identity.py", "functional/ingest/test_shared_requests.py"), decides=True
    ),
    "turnstile.ingest.core.deliveries": Mutated(
        ("unit/ingest/test_deliveries.py", "functional/ingest/test_batches.py"), writes=False, decides=True
    ),
    "turnstile.api.row_batches": Mutated(("functional/ingest/test_batches.py",), writes=False, decides=True),
    "turnstile.ingest.core.evolution": Mutated(("functional/ingest/test_evolution.py",), writes=False, decides=True),
    "turnstile_client.core.rewrites": Mutated(
        ("unit/python_client/test_rewrites.py", "functional/python_client/test_rewrites.py"), writes=False, decides=True
    ),
    "turnstile_client.rewriting": Mutated(
        ("simulation/clients/test_rewrites.py", "functional/python_client/test_rewrites.py"),
        writes=False,
        decides=True,
        guards=True,
    ),
    "turnstile.ingest.turns": Mutated(
        ("functional/ingest/test_shared_requests.py", "functional/ingest/test_*.py", "simulation/test_rows.py"),
        writes=False,
        decides=True,
        guards=True,
    ),
    "turnstile.ingest.core.rejects": Mutated(
        ("unit/ingest/test_rejects.py", "functional/ingest/test_quarantine.py"), writes=False, decides=True
    ),
    "turnstile.ingest.rejected": Mutated(
        ("functional/ingest/test_quarantine.py", "functional/ingest/test_rights.py"), writes=False, decides=True
    ),
    "turnstile.events.core.rows": Mutated(
        ("unit/events/test_event_log.py", "unit/gc/test_tombstones.py", "simulation/test_events.py")
    ),
    "turnstile.events.core.events": Mutated(("unit/events/test_*.py",), writes=False, decides=True),
    "turnstile.events.core.run_events": Mutated(("unit/events/test_run_events.py",), writes=False, decides=True),
    "turnstile.catalog.core.follow_ups": Mutated(("unit/events/test_follow_ups.py",), writes=False, decides=True),
    "turnstile.events.core.follow_ups": Mutated(
        ("unit/events/test_follow_ups.py",), writes=False, decides=True, guards=True
    ),
    "turnstile.events.follow_ups": Mutated(
        ("unit/events/test_follow_ups.py", "functional/damage/test_damaged_tasks.py"),
        writes=False,
        decides=True,
        guards=True,
    ),
    "turnstile.events.core.deliveries": Mutated(("unit/events/test_deliveries.py",), decides=True),
    "turnstile.events.deliver": Mutated(
        ("unit/events/test_deliveries.py", "simulation/test_events.py"), writes=False, decides=True
    ),
    "turnstile.maintenance.core.pins": Mutated(("unit/maintenance/test_*.py",), decides=True),
    "turnstile.maintenance.core.retention": Mutated(
        ("functional/unity/test_maintenance.py", "unit/maintenance/test_*.py"), writes=False, decides=True
    ),
    "turnstile.maintenance.pins": Mutated(("unit/maintenance/test_pins.py",), writes=False, decides=True),
    "turnstile.maintenance.core.cleanup": Mutated(
        ("unit/maintenance/test_cleanup.py",), writes=False, decides=True, guards=True
    ),
    "turnstile.maintenance.holders": Mutated(
        ("unit/maintenance/test_pins.py", "functional/unity/test_maintenance.py"), writes=False, decides=True
    ),
    "turnstile.maintenance.holds": Mutated(
        ("unit/maintenance/test_*.py", "unit/gc/test_log.py"), writes=False, decides=True, guards=True
    ),
    "turnstile.store.core.opaque": Mutated(("unit/store/test_opaque_texts.py",), writes=False, decides=True),
    "turnstile.fleet.core.rows": Mutated(("unit/fleet/test_fleet_rows.py", "unit/fleet/test_*.py"), decides=True),
    "turnstile.fleet.core.decisions": Mutated(
        ("unit/fleet/test_fleet_decisions.py", "unit/fleet/test_*.py"), writes=False, decides=True, guards=True
    ),
    "turnstile.fleet.core.granules": Mutated(
        ("unit/fleet/test_granules.py", "unit/fleet/test_*members.py"), writes=False, decides=True, guards=True
    ),
    "turnstile.fleet.exchange": Mutated(
        ("unit/fleet/test_members.py", "unit/fleet/test_damaged_members.py"), writes=False, decides=True, guards=True
    ),
    "turnstile.fleet.member": Mutated(
        ("unit/fleet/test_members.py", "unit/fleet/test_damaged_members.py"), writes=False, decides=True, guards=True
    ),
    "turnstile.coordination.core.rows": Mutated(("unit/coordination/test_tasks.py", "unit/coordination/test_*.py")),
    "turnstile.adapters.secret": Mutated(("unit/auth/test_secrets.py",), writes=False, decides=True),
    "turnstile.adapters.sqlite.checkpoints": Mutated(
        ("contract/adapters/test_sqlite_checkpoints.py",), writes=False, decides=True
    ),
    "turnstile.adapters.sqlite.lock": Mutated(
        ("contract/adapters/test_sqlite_lock.py", "contract/adapters/test_sqlite_faults.py"), writes=False, decides=True
    ),
    "turnstile.gc.core": Mutated(("unit/gc/test_*.py", "unit/delta/test_*.py"), writes=False, decides=True),
    "turnstile.iceberg.core.expressions": Mutated(("unit/iceberg/test_expressions.py",), writes=False, decides=True),
    "turnstile.iceberg.core.delta_tables": Mutated(("unit/iceberg/test_delta_tables.py",), writes=False, decides=True),
    "turnstile.iceberg.core.scan_tasks": Mutated(
        ("unit/iceberg/test_delta_tables.py", "functional/iceberg/test_delta_tables.py"), writes=False, decides=True
    ),
    "turnstile.iceberg.scans.delta_scans": Mutated(
        ("functional/iceberg/test_delta_tables.py", "functional/iceberg/test_delta_plans.py"),
        writes=False,
        decides=True,
        guards=True,
    ),
    "turnstile.iceberg.scans.plan_runs": Mutated(
        ("unit/iceberg/test_plan_runs.py", "functional/iceberg/test_plan_ids.py"),
        writes=False,
        decides=True,
        guards=True,
    ),
    "turnstile.iceberg.core.files.file_ranges": Mutated(
        ("unit/iceberg/test_file_ranges.py", "functional/iceberg/test_table_scans.py"), writes=False, decides=True
    ),
    "turnstile.iceberg.core.files.content_files": Mutated(
        ("unit/iceberg/test_content_files.py",), writes=False, decides=True
    ),
    "turnstile.iceberg.scans.table_scans": Mutated(
        ("functional/iceberg/test_table_scans.py",), writes=False, decides=True, guards=True
    ),
    "turnstile.iceberg.scans.manifest_reader": Mutated(
        ("functional/iceberg/test_table_scans.py",), writes=False, decides=True, guards=True
    ),
    "turnstile.iceberg.core.expiry": Mutated(
        (
            "unit/iceberg/test_expiry.py",
            "unit/gc/test_iceberg_snapshots.py",
            "functional/iceberg/test_frozen_writers.py",
        ),
        writes=False,
        decides=True,
    ),
    "turnstile.iceberg.manifest_lists": Mutated(
        ("functional/iceberg/test_frozen_writers.py",), writes=False, decides=True, guards=True
    ),
    "turnstile.iceberg.core.files.manifest_rewrite": Mutated(
        ("unit/iceberg/test_manifest_rewrite.py", "unit/gc/test_iceberg_manifests.py"), writes=False, decides=True
    ),
    "turnstile.iceberg.manifest_rewrite": Mutated(
        ("unit/gc/test_iceberg_manifests.py",), writes=False, decides=True, guards=True
    ),
    "turnstile.gc.iceberg_scan": Mutated(
        ("unit/gc/test_iceberg.py", "unit/gc/test_iceberg_files.py"), writes=False, decides=True
    ),
    "turnstile.gc.iceberg_marks": Mutated(
        ("unit/gc/test_iceberg_marks.py", "unit/gc/test_iceberg_files.py"), writes=False, decides=True, guards=True
    ),
    "turnstile.gc.kinds.iceberg_files": Mutated(
        ("unit/gc/test_iceberg_files.py",), writes=False, decides=True, guards=True
    ),
    "turnstile.iceberg.expiry": Mutated(
        ("unit/gc/test_iceberg_snapshots.py",), writes=False, decides=True, guards=True
    ),
    "turnstile.delta.core.named_files": Mutated(
        ("unit/maintenance/test_named_files.py", "unit/iceberg/test_delta_tables.py"), writes=False, decides=True
    ),
    "turnstile.maintenance.named_files": Mutated(
        ("unit/maintenance/test_named_files.py", "functional/damage/test_named_iceberg_files.py"),
        writes=False,
        decides=True,
        guards=True,
    ),
    "turnstile.iceberg.named_files": Mutated(
        ("functional/damage/test_named_iceberg_files.py",), writes=False, decides=True, guards=True
    ),
    "turnstile.gc.kinds.tombstones": Mutated(("unit/gc/test_tombstones.py",), writes=False, decides=True, guards=True),
    "turnstile.gc.kinds.log": Mutated(("unit/gc/test_log.py",), writes=False, decides=True, guards=True),
    "turnstile.gc.kinds.file_index": Mutated(("unit/gc/test_file_index.py",), writes=False, decides=True, guards=True),
    "turnstile.gc.kinds.staged": Mutated(("unit/gc/test_staged.py", "unit/gc/test_*.py"), writes=False, guards=True),
    "turnstile.delta.verify": Mutated(("unit/repair/test_verify.py",), writes=False, decides=True, guards=True),
    "turnstile.delta.prepare": Mutated(
        ("unit/delta/test_*.py", "functional/v1/test_commit*.py", "functional/unity/conformance/test_replays.py"),
        writes=False,
        guards=True,
    ),
    "turnstile.delta.transactions.groups": Mutated(
        (
            "unit/transactions/test_groups.py",
            "unit/transactions/test_large_groups.py",
            "unit/transactions/test_journal.py",
            "functional/v1/test_transactions.py",
        ),
        writes=False,
        decides=True,
        guards=True,
    ),
    "turnstile.delta.core.attention": Mutated(("unit/delta/test_attention.py",), decides=True, guards=True),
    "turnstile.delta.attention": Mutated(("unit/delta/test_attention.py",), writes=False, decides=True, guards=True),
    "turnstile.gc.collector": Mutated(
        ("unit/gc/test_*.py", "functional/gc/test_*.py"), writes=False, decides=True, guards=True
    ),
    "turnstile.delta.core.reservations": Mutated(
        ("unit/transactions/test_reserv*.py", "simulation/test_reservations.py"), decides=True, guards=True
    ),
    "turnstile.delta.transactions.reservations": Mutated(
        ("unit/transactions/test_reserving.py",), writes=False, decides=True, guards=True
    ),
    "turnstile.delta.core.journal_rows": Mutated(("unit/transactions/test_journal.py", "unit/gc/test_transactions.py")),
    "turnstile.catalog.changes.transactions": Mutated(
        (
            "unit/transactions/test_catalog_transactions.py",
            "unit/transactions/test_catalog_reads.py",
            "functional/v1/test_catalog_transactions.py",
            "functional/catalog/test_catalog_reads.py",
        ),
        writes=False,
        decides=True,
        guards=True,
    ),
    "turnstile.catalog.changes.announced": Mutated(
        ("functional/catalog/test_catalog_journal.py",), writes=False, decides=True, guards=True
    ),
    "turnstile.catalog.query.core.differences": Mutated(
        ("unit/query/test_differences.py",), writes=False, decides=True
    ),
    "turnstile.catalog.query.reads": Mutated(
        ("functional/catalog/test_catalog_reads.py", "unit/transactions/test_catalog_reads.py"),
        writes=False,
        decides=True,
        guards=True,
    ),
    "turnstile.catalog.changes.composed": Mutated(
        ("unit/transactions/test_catalog_transactions.py", "functional/v1/test_catalog_transactions.py"),
        writes=False,
        decides=True,
        guards=True,
    ),
    "turnstile.delta.transactions.large_groups": Mutated(
        ("unit/transactions/test_large_groups.py",), writes=False, decides=True, guards=True
    ),
    "turnstile.api.unity.credentials": Mutated(
        ("functional/unity/test_*credentials.py", "functional/clone/test_*.py", "functional/access/test_*.py"),
        writes=False,
        guards=True,
    ),
    "turnstile.iceberg.commits": Mutated(
        ("functional/iceberg/test_*.py", "functional/access/test_changes.py"), writes=False, guards=True
    ),
    "turnstile.iceberg.append_merger": Mutated(
        ("unit/iceberg/test_append_merger.py", "functional/iceberg/test_*.py"), writes=False, guards=True
    ),
    "turnstile.iceberg.core.files.manifest_lists": Mutated(
        ("unit/iceberg/test_manifest_lists.py", "unit/iceberg/test_append_merger.py"), writes=False, decides=True
    ),
    "turnstile.iceberg.core.shared_appends": Mutated(
        ("unit/iceberg/test_shared_appends.py",), writes=False, decides=True
    ),
    "turnstile.iceberg.shared_appends": Mutated(
        ("unit/iceberg/test_shared_appends.py", "functional/iceberg/appends/test_shared_appends.py"),
        writes=False,
        decides=True,
        guards=True,
    ),
    "turnstile.iceberg.files": Mutated(
        ("unit/iceberg/test_files.py", "functional/iceberg/test_altered_files.py", "functional/iceberg/test_*.py"),
        writes=False,
        decides=True,
    ),
    "turnstile.iceberg.locations": Mutated(("functional/iceberg/test_*.py",)),
    "turnstile_spark.transactions.recovery.replay_choice": Mutated(
        ("unit/spark_client/test_replay_choice.py",), writes=False, decides=True
    ),
    "turnstile.transfer.imports": Mutated(
        ("unit/catalog/test_*.py", "functional/transfer/test_import*.py", "functional/transfer/test_http.py")
    ),
}


def source(module: str) -> Path:
    """The module's file."""
    root = CLIENTS.get(module.partition(".")[0], LAYER)
    return root / (module.replace(".", "/") + ".py")


def nearest(module: str) -> list[Path]:
    """Test files that notice a mutant of the module soonest, in order.

    Raises:
        LookupError: a pattern matches no file.
    """
    files: dict[Path, None] = {}
    for pattern in MODULES[module].nearest:
        matching = sorted((ROOT / "tests").glob(pattern))
        if not matching:
            raise LookupError(f"{module}: no test file matches tests/{pattern}")
        files |= dict.fromkeys(matching)
    return list(files)


SURVIVORS: Final[dict[str, str]] = {
    "turnstile.branches.checks: _by_records: branch all((each.checked.question is None for each in found))": (
        "it saves a request"
    ),
    "turnstile.branches.checks: _by_record: operand condition is None": "for the type checker",
    "turnstile.expectations.at_commit: outcomes: branch not left": "it saves a look at the statistics of other files",
    "turnstile.expectations.at_commit: _expectations_of: operand isinstance(expectation.condition, EveryRow)": (
        "for the type checker: no other condition is one of commits"
    ),
    "turnstile.expectations.core.by_statistics: is_broken: operand field is None": "for the type checker",
    "turnstile_client.rewriting: _plan: branch assigns_row_ids(definition)": (
        "Spark judges row ids: tests/spark/maintenance/test_rewrites_without_spark.py"
    ),
    "turnstile_client.rewriting: _write: branch tracking is not None": "Spark judges row ids",
    "turnstile_client.rewriting: _plan: branch filter is not None": "the plan leaves these files out, too",
    "turnstile.branches.promotion_rights: __call__: branch is_permitted(edit_catalog, self._principal, "
    "whole)": "it saves reads; the rule permits owners and admins too",
    "turnstile.access.undrop_rights: __call__: branch self._principal.admin": "it saves reads; the rules permit admins "
    "too",
    "turnstile.catalog.history.dropped: _find_dropped: branch head is not None and head.state != DROPPED": (
        "the HEAD of a table in use has another name, or the name leads to it"
    ),
    "turnstile.catalog.history.dropped: _back: edge after.commit.at < since_us": "a microsecond of the kept history",
    "turnstile.catalog.history.dropped: last: operand id_of(entity) in passed": "it is looked at again and is in use",
    "turnstile.catalog.history.dropped: _end: operand gone is not None": "for the type checker",
    "turnstile.catalog.history.dropped: _end: operand there is not None": "for the type checker",
    "turnstile.catalog.history.dropped: _find_dropped: operand ''": "every HEAD has a name",
    "turnstile.catalog.history.dropped: _has_moved: operand own is not None": "for the type checker",
    "turnstile.catalog.history.undrop: undrop: operand head.state == DROPPED": "the next attempt finds it",
    "turnstile.catalog.history.undrop: undrop: operand reasons.get('', '') != head.reason": "the next attempt finds it",
    "turnstile.catalog.history.undrop: _require_files: operand head is not None (2)": "for the type checker",
    "turnstile.catalog.history.undrop: _require_files: term entity.external is None": "a registered table has no HEAD",
    "turnstile.catalog.history.undrop: _require_files: term not entity.managed": (
        "no other writer adds versions to the log of a managed table"
    ),
    "turnstile.catalog.query.reads: _differences: branch read.head.head == tree.head": (
        "one HEAD has one tree, which is not different from itself: it saves the two walks"
    ),
    "turnstile.maintenance.reliance: unreliable: edge state.start >= 0": "words: a checkpoint of version 0 says what "
    "version 0 says",
    "turnstile.delta.soundness.judge: judge: branch floor not in files.commits": (
        "nothing starts a log that lacks the commit of the floor (segments.starts)"
    ),
    "turnstile.delta.soundness.judge: _start: branch at < 0": "there is no checkpoint of version -1, so none has a "
    "fault",
    "turnstile.gc.kinds.log: scan: operand oldest is not None": "a log has the commit of its floor at least",
    "turnstile.gc.kinds.log: scan: operand files.commits[oldest].modified_ms <= now - upkeep.log_ms": (
        "the log's retention is among the pins, too: it saves reading them"
    ),
    "turnstile.gc.kinds.log: scan: edge files.commits[oldest].modified_ms <= now - upkeep.log_ms": (
        "the log's retention is among the pins, too: it saves reading them"
    ),
    "turnstile.gc.kinds.log: scan: sum now - upkeep.log_ms": (
        "the log's retention is among the pins, too: it saves reading them"
    ),
    "turnstile.gc.kinds.log: read: operand stat.path not in self._seen": (
        "a checkpoint that is read again names what it named: it saves a read"
    ),
    "turnstile.gc.kinds.log: _follow: edge age_ms <= self._context.grace.history_ms + MARGIN_MS": "a millisecond of a "
    "week",
    "turnstile.gc.kinds.log: _delete: edge clock.now_ms() > until_ms": "a millisecond of ten minutes",
    "turnstile.gc.kinds.iceberg_files: _read_new: operand path not in reached.read": (
        "a metadata file that is read again names what it named: it saves a read"
    ),
    "turnstile.planning.sample: sample: edge left <= 0": "a row more after exactly as many bytes as an answer has",
    "turnstile.planning.read_budget: count: edge self._left < 0": "exactly as many bytes as may be read",
    "turnstile.planning.core.shown_rows: _float: edge value > 0": "no infinity is 0",
    "turnstile.planning.core.sql: _number: operand len(text) < 100": "a longer number is the same as a text",
    "turnstile.planning.core.sql: _number: edge len(text) < 100": "a longer number is the same as a text",
    "turnstile.planning.core.sql: predicate: operand isinstance(tree, exp.Like)": "nothing else has the mark of NOT "
    "LIKE",
    "turnstile.delta.transactions.group_reads: decide_refused: edge upto > self._holds[at]": "of no commits nothing is "
    "judged",
    **{
        f"turnstile.planning.index: {name}": "how many leaves are rewritten, and when: plans show the same"
        for name in (
            "run: branch drained and left <= half",
            "run: operand drained",
            "run: operand left <= half",
            "run: edge left <= half",
            "forward: operand len(deltas) >= self.sizes.deltas",
            "forward: edge len(deltas) >= self.sizes.deltas",
            "forward: edge pending > self.sizes.most_pending(sum((ref.rows for ref in leaves)))",
            "_rebound: member first=tuple((bounds[at][0] for at in cluster))",
        )
    },
    "turnstile.planning.leaves: alive: branch not len(paths)": "of no paths none is named: it saves the look",
    "turnstile.planning.leaves: alive: operand mask[at]": "a row that is no file stays none",
    "turnstile.planning.leaves: planned_files: branch not len(rows)": "of no rows no file is made: it saves the work",
    "turnstile.planning.leaves: _summary: operand not len(low)": "the least of no values is not known",
    "turnstile.planning.leaves: _summary: operand not len(high)": "the greatest of no values is not known",
    "turnstile.planning.leaves: bounds_of: operand field is None": "no leaf has a place for a column that is none",
    "turnstile.planning.leaves: __init__: operand len(name) == 1": "a partition column is no struct, so no field of "
    "one is named like it",
    "turnstile.planning.leaves: summaries_of: edge len(name) == 1": "a partition column is no struct, so no field of "
    "one is named like it",
    "turnstile.planning.core.generated: _derive: operand some": "OR of nothing is satisfied by no row",
    "turnstile.planning.core.generated: _any: operand some": "a list of nothing is satisfied by no row",
    "turnstile.planning.core.generated: _derive: edge len(bounding) == 1": "AND of one part is the part",
    "turnstile.planning.core.generated: _parse_generated: operand partition.field is None": "a partition column is of "
    "a primitive type",
    "turnstile.planning.core.generated: _within: operand generated.source.field is None": "its source has a type, as "
    "it was made",
    "turnstile.planning.reads: was_read: operand predicate is None": "a predicate that is none is one that is not "
    "understood",
    "turnstile.planning.planner: _view: operand view is not None": (
        "a root of another history is looked at again with each plan, and never believed: it saves the look"
    ),
    "turnstile.planning.planner: _read_ahead: branch question.explain": "an explained plan reads all leaves anyway",
    "turnstile.planning.planner: _read_ahead: edge at >= first": "a leaf that is not read ahead is read when it is "
    "needed",
    "turnstile.planning.planner: _choose_leaves: operand predicate is None": (
        "no predicate is judged as one that is not understood: it leaves all"
    ),
    "turnstile.planning.planner: _view: edge ict >= 0": "no commit is of the year 1970",
    "turnstile.planning.finding: find: branch count == size": "it saves planning a table of which no file fits the "
    "page",
    "turnstile.planning.judging: _integers_upto: edge most > 0": "it is beyond 64 bits there, so it is not near 0",
    "turnstile.gc.collector: go_on: edge clock.now_ms() >= until_ms": "a millisecond more or less of a run's time",
    "turnstile.gc.collector: go_round: edge clock.now_ms() >= until_ms": "a millisecond more or less of a run's time",
    "turnstile.delta.attention: read: term insert.row": "an insert that was accepted, or refused by a row, answers "
    "with a row",
    "turnstile.gc.core: decided_at: edge first > version": "the version is none of the published ones there, so not "
    "the first",
    "turnstile.api.unity.credentials: _free: term bool(claim.table_id)": (
        "without it the HEAD of a table without an id is looked for, which there never is: it saves a read"
    ),
    "turnstile.delta.core.actions: records_of: edge stats.count('{') > MAX_DEPTH": (
        "what has a hundred braces is nested a hundred levels deep at most: it saves time only"
    ),
    "turnstile.catalog.core.follow_ups: follow_ups_of: edge len(text) <= _LONGEST_TEXT": (
        "no ten rules are so long: it bounds the work only"
    ),
    "turnstile.events.follow_ups: _note: branch isinstance(written, Updateable)": (
        "what is noted is found noted in the next round, which ends it"
    ),
    "turnstile.delta.verify: verify: edge self._world.clock.now_ms() >= until_ms": (
        "a call that ends a millisecond later looks at a version more; the next call goes on from there"
    ),
    "turnstile.delta.verify: look: edge version > self._floor": (
        "what is published at the floor is compared with itself then: nothing else of it is known any more"
    ),
    "turnstile.delta.core.decide: changed_since: edge version <= head.latest": (
        "a table that is at the version that was read has not refused"
    ),
    "turnstile.delta.core.decide: changed_since: operand head.undecided": (
        "a table that is at the version that was read has refused because something is undecided"
    ),
    "turnstile.delta.core.decide: find_identity: operand name": (
        "without it the name of every inline commit is computed, and no name is empty: it saves time only"
    ),
    "turnstile.iceberg.append_merger: _new_manifests: check _require(file[manifests.STATUS] == manifests.ADDED)": (
        "a file that is not added has a sequence number of its own, which is refused two lines on"
    ),
    "turnstile.iceberg.core.files.manifest_lists: parse: branch _form(schema) == _FORM": (
        "without it the entries are encoded again, to the same bytes: it saves time only"
    ),
    "turnstile.iceberg.core.files.manifest_lists: new_entries: edge whole.count < known.count": (
        "a list without a new entry is no append, whichever way it is read"
    ),
    "turnstile.maintenance.compaction: _pieces: edge len(held) > _BYTES": "it says how large the pieces are, not what "
    "is in them",
    "turnstile.maintenance.compaction: write_compaction: term storage.stat(path) is None": (
        "without it the commits are read, and the file is put if it is absent: it saves requests only"
    ),
    "turnstile.maintenance.core.retention: allowed_maintenance: operand 0": "False counts as 0 in a comparison",
    "turnstile.maintenance.runs: after_run: member again_ms=0": "a time that is over holds nothing up",
    "turnstile.catalog.changes.group_commit: _attempt: operand not all((change.is_settled for change in group))": (
        "where nobody has to be judged again the next leader reads the row once more: it saves a read"
    ),
    **{
        f"turnstile.catalog.changes.group_commit: run: {name} rounds > FREE_ROUNDS": (
            "after its second attempt nothing but a lost swap leaves the leader's own change without an outcome: it "
            "bounds what nobody foresaw"
        )
        for name in ("edge", "operand")
    },
    "turnstile.catalog.changes.group_commit: __init__: operand not self._knows_row": (
        "the row that the own change has read was the catalog's after it was asked for: where it is older than the "
        "line's, the swap loses"
    ),
    "turnstile.fleet.core.granules: _remove: branch not owned": "an owner of nothing has nothing that is read again: "
    "it saves the entry",
    "turnstile.delta.ratify: _settle_ratified: edge len(members) > 1": "newest says of the last commit what "
    "tail_by_version says of all: it saves "
    "the others",
    "turnstile.delta.ratify: _settle_ratified: operand place is None": "the tail of a row that has just "
    "accepted a commit is not empty: it is "
    "for the type",
    **{
        f"turnstile.maintenance.named_files: _still_named: {name}": "it saves reading the table's state again"
        for name in (
            "branch not faults or head.floor == version",
            "operand not faults",
            "operand head.floor == version",
        )
    },
    "turnstile.api.row_batches: _set_aside: operand isinstance(error, Refused)": "for the type checker",
    "turnstile.catalog.external: drop: clause 'own'": "the row's key holds the table's id already, so it is no other "
    "table's",
}
"""Mutants that no test notices, each with the reason why none should."""
