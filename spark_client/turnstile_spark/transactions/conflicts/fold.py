"""Folding: several commits of one table, made one after the other, as one commit with the same
effect.

The statements of a transaction are commits v+1 .. v+k of a private log
(:mod:`turnstile_spark.transactions.scopes.scope`); the table gets one commit, v+1. Pure: from
contents to content. *Action Reconciliation* of Delta's protocol has the rule for each action: the
last ``metaData``, ``protocol``, ``domainMetadata`` of a domain and ``txn`` of an application wins,
and so does the last ``add`` or ``remove`` of a logical file, which is a path with a deletion
vector.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from turnstile_spark.transactions.conflicts.conflict_check import parse

Action = dict[str, Any]
#: The operation that the history of a table shows for a folded commit.
OPERATION = "TRANSACTION"
#: The action that names the tables of a transaction.
GROUP_ACTION = "transactionGroup"
#: Members of commitInfo that a folded commit takes over from the last of its commits.
_FROM_LAST = (
    "timestamp",
    "inCommitTimestamp",
    "engineInfo",
    "userId",
    "userName",
    "clusterId",
    "isolationLevel",
    "userMetadata",
)
_FILES = ("add", "remove")
_KNOWN = frozenset((*_FILES, "cdc", "commitInfo", "domainMetadata", "metaData", "protocol", "txn"))


class CannotFold(Exception):
    """These commits have no single commit of the same effect; the message has the reason and the
    remedy."""


def fold(contents: Sequence[str], version: int, txn_id: str) -> str:
    """The content of one commit, ``version``, with the effect of the commits ``version``,
    ``version`` + 1, ... in ``contents``.

    ``contents``: newline-delimited actions, each with its ``commitInfo`` first, in order; at least
    one. One is returned as it is. ``txn_id``: of the folded commit. Raises :class:`CannotFold`.
    """
    if len(contents) == 1:
        return contents[0]
    commits = [_actions(content) for content in contents]
    _check_change_data(commits)
    _check_row_versions(commits, version)
    infos = [commit[0]["commitInfo"] for commit in commits]
    actions = [action for commit in commits for action in commit[1:]]
    folded: list[Action] = [{"commitInfo": _info(infos, version, txn_id)}]
    for kind in ("protocol", "metaData"):
        folded += [action for action in actions if kind in action][-1:]
    for kind, key in (("domainMetadata", "domain"), ("txn", "appId")):
        folded += {action[kind][key]: action for action in actions if kind in action}.values()
    folded += _net_files(actions, version)
    folded += [action for action in actions if "cdc" in action]
    return "".join(json.dumps(action, separators=(",", ":"), ensure_ascii=False) + "\n" for action in folded)


def with_participants(content: str, transaction_id: str, versions: Mapping[str, int]) -> str:
    """``content`` with the action that names the transaction and all its tables, with the version
    that each becomes, instead of one that it may have.

    Source: proposal "Multi-Table Transactions" (delta-io/delta 7437, 7438), which is not settled:
    action and members may change.
    """
    mark = f'{{"{GROUP_ACTION}":'
    lines = [line for line in content.split("\n") if line and not line.startswith(mark)]
    participants = [{"tableId": table_id, "version": version} for table_id, version in sorted(versions.items())]
    group = {GROUP_ACTION: {"transactionId": transaction_id, "participants": participants}}
    return "".join(f"{line}\n" for line in (*lines, json.dumps(group, separators=(",", ":"))))


def commit_info(content: str) -> Action:
    """The ``commitInfo`` of a commit, which is its first action."""
    return json.loads(content[: content.index("\n")])["commitInfo"]  # type: ignore[no-any-return]


def with_timestamp(content: str, in_commit_timestamp_ms: int) -> str:
    """The same commit with another in-commit timestamp."""
    first, _, others = content.partition("\n")
    info = json.loads(first)
    info["commitInfo"]["inCommitTimestamp"] = in_commit_timestamp_ms
    return f"{json.dumps(info, separators=(',', ':'), ensure_ascii=False)}\n{others}"


def file_key(file: Action) -> tuple[str, str]:
    """The identity of a logical file: its path, and the unique id of its deletion vector (empty: it
    has none)."""
    vector = file.get("deletionVector")
    if not vector:
        return file["path"], ""
    offset = vector.get("offset")
    return file["path"], vector["storageType"] + vector["pathOrInlineDv"] + ("" if offset is None else f"@{offset}")


def _actions(content: str) -> list[Action]:
    actions = parse(content)
    for action in actions:
        if unknown := set(action) - _KNOWN:
            kind = min(unknown)
            raise CannotFold(f"a statement wrote the action '{kind}', which this client does not know: run it alone")
    return actions


def _net_files(actions: list[Action], version: int) -> list[Action]:
    """The adds and removes that are left: for each logical file the last action, unless the file
    came and went."""
    first: dict[tuple[str, str], Action] = {}
    last: dict[tuple[str, str], Action] = {}
    for action in actions:
        for kind in _FILES:
            if kind in action:
                key = file_key(action[kind])
                first.setdefault(key, action)
                last.pop(key, None)  # the order of the last actions
                last[key] = action
    gone = {key for key, action in last.items() if "remove" in action and _is_new(first[key])}
    kept = [action for key, action in last.items() if key not in gone]
    # Who follows a table skips what changes no data. A file that was written anew inside (by a
    # compaction, say) may be all that is left of rows which an action that is left out has brought
    # or taken.
    changes_data = bool(gone) and any(
        action[kind]["dataChange"] for action in actions for kind in _FILES if kind in action
    )
    return [_place(action, version, changes_data) for action in kept]


def _is_new(action: Action) -> bool:
    """Whether the first action on a logical file means that the file is new. An add that changes no
    data may describe an existing file anew, as with row ids. The remove of a missing file does no
    harm.
    """
    return "add" in action and bool(action["add"]["dataChange"])


def _place(action: Action, version: int, changes_data: bool) -> Action:
    kind = "add" if "add" in action else "remove"
    file = dict(action[kind])
    if changes_data:
        file["dataChange"] = True
    if (row_version := file.get("defaultRowCommitVersion")) is not None:
        file["defaultRowCommitVersion"] = min(row_version, version)
    return {kind: file}


def _info(infos: list[Action], version: int, txn_id: str) -> Action:
    """One ``commitInfo``. Its in-commit timestamp is the last one's: they increase, so it is later
    than the base's (I7)."""
    statements = [{"operation": i.get("operation"), "parameters": i.get("operationParameters", {})} for i in infos]
    last = infos[-1]
    tags = [i.get("tags") or {} for i in infos]
    info: Action = {key: last[key] for key in _FROM_LAST if key in last}
    info["operation"] = OPERATION
    info["operationParameters"] = {"statements": json.dumps(statements, separators=(",", ":"), ensure_ascii=False)}
    if version:
        info["readVersion"] = version - 1
    info["isBlindAppend"] = all(i.get("isBlindAppend") is True for i in infos)
    if common := {key: value for key, value in tags[0].items() if all(t.get(key) == value for t in tags)}:
        info["tags"] = common
    info["txnId"] = txn_id
    return info


def _check_change_data(commits: list[list[Action]]) -> None:
    """A version's change data are those of its ``cdc`` files if it has any, and else follow from
    its adds and removes: both cannot be in one version, nor can two changes of one row."""
    with_files = [commit for commit in commits if any(kind in action for action in commit for kind in (*_FILES, "cdc"))]
    if len(with_files) > 1 and any("cdc" in action for commit in with_files for action in commit):
        raise CannotFold(
            "the table has change data feed on, and more than one statement of the transaction changes it: "
            "the feed has one version for them. Make it one statement (a MERGE, say), or several transactions"
        )


def _check_row_versions(commits: list[list[Action]], version: int) -> None:
    """Rows that were written by one statement and copied by a later one keep the version of the
    first inside the new file, where it cannot be folded: that number is for another commit."""
    late = {
        file_key(action["add"])
        for commit in commits[1:]
        for action in commit
        if "add" in action and (action["add"].get("defaultRowCommitVersion") or 0) > version
    }
    for commit in commits:
        vectored = {
            action["add"]["path"] for action in commit if "add" in action and action["add"].get("deletionVector")
        }
        for action in commit:
            removed = action.get("remove")
            if removed and file_key(removed) in late and removed["path"] not in vectored:
                rewrites = any("add" in other for other in commit)
                if rewrites:
                    raise CannotFold(
                        "the table has row tracking on, and a statement of the transaction rewrites rows that an "
                        "earlier one wrote: their row commit versions would be those of later commits. Make it one "
                        "statement"
                    )
