// A line over time or versions, by uPlot; the figures are also in a table that follows it.
import "uplot/dist/uPlot.min.css";
import { Box, useComputedColorScheme } from "@mantine/core";
import { useEffect, useRef } from "react";
import uPlot from "uplot";

interface Properties {
  label: string;
  xLabel: string;
  x: number[];
  y: number[];
  format: (value: number) => string;
}

export default function Chart({ label, xLabel, x, y, format }: Properties) {
  const box = useRef<HTMLDivElement>(null);
  const scheme = useComputedColorScheme("light");
  useEffect(() => {
    const element = box.current;
    if (!element) return;
    const ink = scheme === "dark" ? "#ced4da" : "#343a40";
    const grid = { stroke: scheme === "dark" ? "#3b3b3b" : "#e9ecef", width: 1 };
    const axis = { stroke: ink, grid, ticks: grid };
    const plot = new uPlot(
      {
        width: element.clientWidth,
        height: 200,
        scales: { x: { time: false } },
        legend: { show: false },
        axes: [
          { ...axis, label: xLabel, labelSize: 20, incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 10_000, 100_000] },
          { ...axis, size: 70, values: (_: uPlot, ticks: number[]) => ticks.map(format) },
        ],
        series: [{}, { stroke: scheme === "dark" ? "#66d9e8" : "#0b7285", width: 2, points: { show: true } }],
      },
      [x, y],
      element,
    );
    const watcher = new ResizeObserver(() => plot.setSize({ width: element.clientWidth, height: 200 }));
    watcher.observe(element);
    return () => {
      watcher.disconnect();
      plot.destroy();
    };
  }, [x, y, xLabel, format, scheme]);
  return <Box ref={box} role="img" aria-label={label} />;
}
