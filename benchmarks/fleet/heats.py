"""The heats: scaling out, failing over, and many members."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import Any

from benchmarks.fleet.driver import FREEZE, GO_ON, KILL, Members, Settings, heat
from benchmarks.fleet.systems import System
from benchmarks.processes import cpu_s

Result = dict[str, Any]
UNEVEN = 0.25
"""How far from the mean a member's granules may be in a fleet that is balanced."""


def scale_out(system: System, settings: Settings, most: int, patience_s: float) -> Iterator[Result]:
    """Doubles the members until there are ``most``: how long after the new ones were told to join
    each has its part, and how many granules changed hands a second between the first and the last
    that did."""
    with heat(system, settings) as (opened, members):
        began_s = members.send(members.prepare([["m000"]]), "join")
        owns_all = members.wait(lambda: sum(members.owned.values()) >= settings.granules, patience_s, "all are claimed")
        yield {"heat": "claim", "members": 1, "migrations": settings.granules, "balanced_s": owns_all - began_s}
        count = 1
        while count < most:
            joining = members.prepare([[f"m{number:03d}"] for number in range(count, 2 * count)])
            before = cpu_s(opened.servers)
            began_s = members.send(joining, "join")
            count *= 2
            mean = settings.granules / count

            def balanced(count: int = count, mean: float = mean) -> bool:
                owned = list(members.owned.values())
                return (
                    len(owned) == count and sum(owned) == settings.granules
                    and max(owned) <= mean * (1 + UNEVEN) + 1 and min(owned) >= mean * (1 - UNEVEN) - 1
                )  # fmt: skip

            try:
                end_s = members.wait(balanced, patience_s, f"{count} members are balanced")
            except TimeoutError as error:
                yield {
                    "heat": f"{count // 2} to {count}",
                    "members": count,
                    "failed": f"{error}: {sorted(members.owned.values())}",
                }
                return
            gains = [event for event in members.since(began_s, "owned") if event["gained"]]
            migrations = sum(event["gained"] for event in gains)
            moves = [event["at_s"] for event in members.since(began_s, "owned") if event["owned"]]
            active_s = max(0.001, max(moves) - min(moves))
            yield {
                "heat": f"{count // 2} to {count}", "members": count, "migrations": migrations,
                "balanced_s": end_s - began_s,
                "first_s": min(event["at_s"] for event in gains) - began_s, "per_s": migrations / active_s,
                "server_cpu_s": cpu_s(opened.servers) - before, **members.statistics(began_s, end_s),
            }  # fmt: skip
            time.sleep(2 * settings.beat_ms / 1000)


def _spread(members: Members, settings: Settings, count: int, patience_s: float) -> None:
    """Starts so many members, a process each, and waits until each has its part."""
    members.send(members.prepare([["m000"]]), "join")
    members.wait(lambda: sum(members.owned.values()) >= settings.granules, patience_s, "all are claimed")
    members.send(members.prepare([[f"m{number:03d}"] for number in range(1, count)]), "join")
    mean = settings.granules / count
    members.wait(
        lambda: len(members.owned) == count and sum(members.owned.values()) == settings.granules
        and min(members.owned.values()) >= mean * (1 - UNEVEN) - 1 and len(members.seen) == count
        and set(members.seen.values()) == {count},
        patience_s, "all have their part",
    )  # fmt: skip


def failover(system: System, settings: Settings, count: int, patience_s: float) -> Iterator[Result]:
    """Kills a member, then freezes another one, and lets that go on again. Times from the signal
    on: until the first of the others steps in for it, until each of its granules is owned again,
    and the mean for a granule."""
    with heat(system, settings) as (_, members):
        _spread(members, settings, count, patience_s)
        time.sleep(6 * settings.beat_ms / 1000)
        for victim, number in (("m001", KILL), ("m002", FREEZE)):
            lost = members.owned[victim]
            at_s = members.signal(victim, number)
            members.forget(victim)
            living = sum(members.owned.values())
            whole = living + lost
            end_s = members.wait(
                lambda whole=whole: sum(members.owned.values()) >= whole, patience_s, "all are owned again"
            )
            time.sleep(0.2)
            gains = [event for event in members.since(at_s, "owned") if event["gained"] and event["member"] != victim]
            taken = list[float]()
            for event in gains:
                taken += [event["at_s"] - at_s] * event["gained"]
            taken = sorted(taken)[:lost]
            doubts = [event["at_s"] - at_s for event in members.since(at_s, "doubts")]
            doubts += [event["at_s"] - at_s for event in members.since(at_s, "members") if victim in event["gone"]]
            result = {
                "heat": "kill" if number is KILL else "freeze", "members": count, "granules_lost": lost,
                "owned_again_s": end_s - at_s, "without_owner_mean_s": sum(taken) / max(1, len(taken)),
                "first_taken_s": taken[0] if taken else None, "others_step_in_s": min(doubts, default=None),
            }  # fmt: skip
            if number is FREEZE:
                again_s = members.signal(victim, GO_ON)
                try:
                    members.wait(
                        lambda again_s=again_s: bool(members.since(again_s, "removed", "died", "failed")),
                        30,
                        "it notices",
                    )
                    result["notices_s"] = members.since(again_s, "removed", "died", "failed")[0]["at_s"] - again_s
                except TimeoutError:
                    result["notices_s"] = None
            yield result
            members.wait(lambda: len(set(members.seen.values())) == 1, patience_s, "all know who is left")
            time.sleep(8 * settings.beat_ms / 1000)


def crowd(  # noqa: PLR0917 - each is an option
    system: System, settings: Settings, count: int, processes: int, steady_s: float, churn_s: float, patience_s: float
) -> Iterator[Result]:
    """Many members: all join at once; then they do nothing but show life; then a new one comes;
    then each leaves and joins again every ``churn_s`` seconds, as in the paper's section 6.7."""
    names = [f"m{number:03d}" for number in range(count)]
    with heat(system, settings) as (opened, members):
        running = members.prepare([names[number::processes] for number in range(min(processes, count))])
        began_s = members.send(running, "join")
        joined_s = members.wait(lambda: len(members.joined) == count, patience_s, "all have joined") - began_s
        know_s = (
            members.wait(lambda: list(members.seen.values()) == [count] * count, patience_s, "all know all") - began_s
        )
        members.wait(lambda: sum(members.owned.values()) == settings.granules, patience_s, "all granules are owned")
        joins = sorted(event["took_ms"] for event in members.since(began_s, "joined"))
        time.sleep(max(5.0, 12 * settings.beat_ms / 1000))
        before = cpu_s(opened.servers)
        from_s = time.monotonic()
        time.sleep(steady_s)
        server_cpu_s = cpu_s(opened.servers) - before
        to_s = time.monotonic()
        result = {
            "heat": "crowd", "members": count, "joined_s": joined_s, "all_know_s": know_s,
            "join_p50_ms": joins[len(joins) // 2], "join_p99_ms": joins[int(len(joins) * 0.99)],
            "server_cpu_s": server_cpu_s, **members.statistics(from_s, to_s),
        }  # fmt: skip
        newcomer = members.prepare([["x000"]])
        at_s = members.send(newcomer, "join")
        result["newcomer_known_s"] = (
            members.wait(lambda: list(members.seen.values()) == [count + 1] * (count + 1), patience_s, "all know of it")
            - at_s
        )
        result["failed"] = len(members.since(0, "failed", "died", "removed"))
        if churn_s:
            from_s = members.send(running, f"churn {churn_s}")
            time.sleep(2 * churn_s)
            for kind in ("joined", "left"):
                took = sorted(event["took_ms"] for event in members.since(from_s, kind))
                result |= {
                    f"churn_{kind}": len(took), f"churn_{kind}_p50_ms": took[len(took) // 2] if took else None,
                    f"churn_{kind}_p99_ms": took[int(len(took) * 0.99)] if took else None,
                }  # fmt: skip
            result["churn_failed"] = len(members.since(from_s, "failed", "died", "removed"))
        yield result


def load() -> float:
    """The machine's load of the last minute."""
    return round(os.getloadavg()[0], 1)
