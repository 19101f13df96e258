"""Draws what ``benchmarks.planning --out`` measured: ``python -m benchmarks.planning.plot FILE``;
writes docs/images/planning.svg."""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import sys
from pathlib import Path
from typing import Any

from benchmarks.plots import OTHER, ROOT, save

QUESTIONS = ("one day", "ids, not the partition", "all files")
COLOURS = {
    "Turnstile": "#1b7f5c",
    "Delta Spark": "#c0392b",
    "Iceberg Java": "#4a6fa5",
    "PyIceberg": "#8fb3dd",
    "DuckDB, Delta": "#d9a400",
    "DuckDB, Iceberg": "#8a6d00",
}


def draw(plt: Any, results: list[dict[str, Any]], folder: Path) -> None:
    """Times by size, a line for each client: above cold, below warm; a column for each question."""
    figure, rows = plt.subplots(2, len(QUESTIONS), figsize=(11, 6.2), sharex=True, sharey=True)
    for row, kind in zip(rows, ("cold", "warm"), strict=True):
        for axes, question in zip(row, QUESTIONS, strict=True):
            for client in COLOURS:
                points = [
                    (one["files"], one[f"{kind}_p50_ms"])
                    for one in results
                    if one.get("client") == client and one.get("question") == question and one.get(f"{kind}_p50_ms")
                ]
                sizes, times = zip(*sorted(points), strict=True) if points else ((), ())
                axes.plot(sizes, times, marker="o", markersize=3, color=COLOURS.get(client, OTHER), label=client)
            axes.set_xscale("log")
            axes.set_yscale("log")
            axes.set_title(f"{question}, {kind}", fontsize=9, loc="left")
            axes.grid(visible=True, alpha=0.2)
            axes.spines[["top", "right"]].set_visible(False)
        row[0].set_ylabel("ms, p50", fontsize=8)
    for axes in rows[1]:
        axes.set_xlabel("files of the table", fontsize=8)
    rows[0][0].legend(fontsize=7, frameon=False)
    figure.suptitle(
        "Planning a scan: Turnstile waits 20 ms for each request to storage and 5 ms for each to the store, the others "
        "have local disks",
        fontsize=9, x=0.01, ha="left",
    )  # fmt: skip
    figure.tight_layout()
    save(plt, figure, folder / "planning.svg")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--into", type=Path, default=ROOT / "docs" / "images")
    options = parser.parse_args()
    if importlib.util.find_spec("matplotlib") is None:
        from benchmarks.streaming.systems import peers

        os.execv(peers(), [str(peers()), "-m", "benchmarks.planning.plot", *sys.argv[1:]])
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams |= {"svg.fonttype": "none", "svg.hashsalt": "turnstile", "font.family": "sans-serif"}
    from matplotlib import pyplot as plt

    draw(plt, [json.loads(line) for line in options.file.read_text().splitlines()], options.into)


if __name__ == "__main__":
    main()
