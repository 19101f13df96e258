"""Draws what ``benchmarks.fleet scale-out --out`` measured:
``python -m benchmarks.fleet.plot FILE ...``; writes docs/images/fleet.svg."""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import sys
from pathlib import Path
from typing import Any

from benchmarks.plots import OTHER, ROOT, loads, medians, save

COLOURS = {"sqlite": "#1b7f5c", "dynamodb": "#7cc3a8", "modelled": "#7cc3a8", "zookeeper": "#c0392b", "etcd": "#4a6fa5"}


def draw(plt: Any, results: list[dict[str, Any]], folder: Path) -> None:
    """Seconds until every member has its part, and granules that changed hands a second, by members
    after the scale-out."""
    heats = [one for one in results if " to " in one["heat"] and "failed" not in one]
    merged = medians(heats, "system", "members", "title")
    figure, panes = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
    for axes, name, label in zip(
        panes, ("balanced_s", "per_s"), ("s until every member has its part", "granules a second"), strict=True
    ):
        for system in dict.fromkeys(one["system"] for one in merged):
            points = sorted(
                (one["members"], one[name], one["title"]) for one in merged if one["system"] == system and one.get(name)
            )
            if points:
                members, values, titles = zip(*points, strict=True)
                axes.plot(members, values, marker="o", markersize=4, color=COLOURS.get(system, OTHER), label=titles[0])
        axes.set_xscale("log", base=2)
        axes.set_xticks([2, 4, 8, 16], ["1 to 2", "2 to 4", "4 to 8", "8 to 16"])
        axes.set_ylim(bottom=0)
        axes.set_ylabel(label, fontsize=8)
        axes.grid(visible=True, alpha=0.2)
        axes.spines[["top", "right"]].set_visible(False)
    panes[0].legend(fontsize=8, frameon=False)
    figure.suptitle(f"100,000 granules, members doubled ({loads(heats)})", fontsize=10)
    save(plt, figure, folder / "fleet.svg")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--into", type=Path, default=ROOT / "docs" / "images")
    options = parser.parse_args()
    if importlib.util.find_spec("matplotlib") is None:
        from benchmarks.streaming.systems import peers

        os.execv(peers(), [str(peers()), "-m", "benchmarks.fleet.plot", *sys.argv[1:]])
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams |= {"svg.fonttype": "none", "svg.hashsalt": "turnstile", "font.family": "sans-serif"}
    from matplotlib import pyplot as plt

    draw(plt, [json.loads(line) for file in options.files for line in file.read_text().splitlines()], options.into)


if __name__ == "__main__":
    main()
