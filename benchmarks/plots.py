"""Draws what ``benchmarks.streaming`` and ``benchmarks.server_commits`` measured (``--out``):
``python -m benchmarks.plots FILE ...``.

Writes docs/images/streaming.svg, streaming-growth.svg and server-commits.svg, those for which the
files have figures. Several runs of one heat become one by their medians.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import statistics
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
COLOURS = {"Turnstile": "#1b7f5c", "PyIceberg on Turnstile": "#7cc3a8", "DuckLake": "#d9a400", "PyIceberg": "#4a6fa5"}
OTHER = "#8a8a8a"


def colour(title: str) -> str:
    prefixes = [name for name in COLOURS if title.startswith(name)]
    return COLOURS[max(prefixes, key=len)] if prefixes else OTHER


def medians(results: list[dict[str, Any]], *keys: str) -> list[dict[str, Any]]:
    """One result for each combination of ``keys``, in the order of their first; numbers are
    medians."""
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for result in results:
        groups.setdefault(tuple(result[key] for key in keys), []).append(result)
    merged = []
    for group in groups.values():
        numbers = {
            name: statistics.median(one[name] for one in group)
            for name, value in group[0].items()
            if isinstance(value, int | float) and name not in keys and all(one[name] is not None for one in group)
        }
        merged.append(group[-1] | numbers)
    return merged


def latency_lines(axes: Any, labels: list[str], results: list[dict[str, Any]]) -> None:
    """p50 as a point, p99 as the end of a line, the rate beside it; the first result on top."""
    for place, (label, one) in enumerate(zip(labels, results, strict=True)):
        if not one["p50_ms"]:
            continue
        axes.plot([one["p50_ms"], one["p99_ms"]], [place, place], color=colour(label), linewidth=2)
        axes.plot([one["p50_ms"]], [place], marker="o", color=colour(label))
        axes.plot([one["p99_ms"]], [place], marker="|", color=colour(label))
        axes.annotate(
            f"{one['per_s']:,.0f}/s" if one["per_s"] >= 10 else f"{one['per_s']:.1f}/s",
            (one["p99_ms"], place),
            xytext=(6, 0),
            textcoords="offset points",
            va="center",
            fontsize=8,
        )
    axes.set_yticks(range(len(labels)), labels, fontsize=8)
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.margins(x=0.2)
    axes.set_xlabel("ms a commit: point p50, line to p99; commits a second at its end", fontsize=8)
    axes.spines[["top", "right"]].set_visible(False)


def loads(results: list[dict[str, Any]]) -> str:
    measured = [one["load"] for one in results]
    return f"load {min(measured):.0f} to {max(measured):.0f}"


def draw_streaming(plt: Any, results: list[dict[str, Any]], folder: Path) -> None:
    heats = sorted({(one["rows"], one["writers"], one["as"]) for one in results})
    figure, panes = plt.subplots(
        len(heats), 1, figsize=(8, 0.9 + 2.6 * len(heats)), squeeze=False, layout="constrained"
    )
    for axes, (rows, writers, kind) in zip(panes[:, 0], heats, strict=True):
        of_heat = [one for one in results if (one["rows"], one["writers"], one["as"]) == (rows, writers, kind)]
        latency_lines(axes, [one["title"] for one in of_heat], of_heat)
        who = "1 writer" if writers == 1 else f"{writers} writers ({kind}) on one table"
        axes.set_title(f"commits of {rows} rows, {who}", fontsize=10, loc="left")
    figure.suptitle(f"Streaming benchmark ({loads(results)})", fontsize=10)
    save(plt, figure, folder / "streaming.svg")

    single = [one for one in results if one["writers"] == 1 and one["rows"] == heats[0][0]]
    if single:
        figure, axes = plt.subplots(figsize=(8, 4), layout="constrained")
        for place, one in enumerate(single):
            tenths = one["p50_ms_of_tenths"]
            commits = [one["commits"] * (number + 0.5) / len(tenths) for number in range(len(tenths))]
            style = ("-", "--", ":", "-.")[place % 4]
            axes.plot(commits, tenths, style, marker=".", color=colour(one["title"]), label=one["title"])
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlabel("commits in the table", fontsize=8)
        axes.set_ylabel("ms a commit (p50 of each tenth)", fontsize=8)
        axes.legend(fontsize=7, loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_title(f"What a commit costs as the table grows, 1 writer ({loads(single)})", fontsize=10, loc="left")
        save(plt, figure, folder / "streaming-growth.svg")


def draw_server(plt: Any, results: list[dict[str, Any]], folder: Path) -> None:
    figure, axes = plt.subplots(figsize=(8, 0.8 + 0.35 * len(results)), layout="constrained")
    labels = [one["heat"] if one["heat"].startswith("bare") else f"Turnstile: {one['heat']}" for one in results]
    latency_lines(axes, labels, results)
    axes.set_title(f"Commits through the server, and a bare endpoint with one synced insert ({loads(results)})",
                   fontsize=10, loc="left")  # fmt: skip
    save(plt, figure, folder / "server-commits.svg")


def save(plt: Any, figure: Any, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)
    path.write_text("\n".join(line.rstrip() for line in path.read_text().splitlines()) + "\n")
    print(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=Path, nargs="+", metavar="FILE")
    parser.add_argument("--into", type=Path, default=ROOT / "docs" / "images")
    options = parser.parse_args()
    if importlib.util.find_spec("matplotlib") is None:
        from benchmarks.streaming.systems import peers

        os.execv(peers(), [str(peers()), "-m", "benchmarks.plots", *sys.argv[1:]])
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams |= {"svg.fonttype": "none", "svg.hashsalt": "turnstile", "font.family": "sans-serif"}
    from matplotlib import pyplot as plt

    results = [json.loads(line) for file in options.files for line in file.read_text().splitlines()]
    if streaming := [one for one in results if "system" in one]:
        draw_streaming(plt, medians(streaming, "title", "rows", "writers", "as"), options.into)
    if server := [one for one in results if "heat" in one]:
        draw_server(plt, medians(server, "heat"), options.into)


if __name__ == "__main__":
    main()
