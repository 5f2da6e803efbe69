/** A line chart that stays quick with many points; zoom and cursor are shared by charts that ask for it. */
import { useComputedColorScheme } from "@mantine/core";
import { useElementSize, useMergedRef } from "@mantine/hooks";
import { useEffect, useRef } from "react";
import uPlot from "uplot";
import { number, UNKNOWN } from "@/view/format.ts";
import { tooltip } from "./tooltip.ts";

export interface Line {
  label: string;
  x: ArrayLike<number>;
  y: ArrayLike<number | null>;
  color: string;
  width?: number;
  /** Behind the others, as the values that a smoothed line was made of. */
  faint?: boolean;
  dash?: number[];
  points?: boolean;
  /** A null is a gap in the line, not a point to pass over. */
  gaps?: boolean;
  /** Where there is a value that cannot be drawn, marked at the foot of the chart. */
  marks?: number[];
}

/** A filled stretch between two lines, by their places in `lines`. */
export interface Band {
  upper: number;
  lower: number;
  fill: string;
}

export type Axis = "number" | "doubling" | "time" | "elapsed";

export type Range = [from: number, to: number];

interface Props {
  /** What the chart shows, for those who cannot see it. */
  title: string;
  lines: Line[];
  bands?: Band[];
  height?: number;
  /** x as the number it is, with powers of two equally far apart, as seconds since 1970, or since a beginning. */
  axis?: Axis;
  isLog?: boolean;
  yRange?: Range;
  formatY?: (value: number) => string;
  zoom?: Range | null;
  onZoom?: (range: Range | null) => void;
  /** Someone clicked at this x, that of the nearest point. */
  onPick?: (x: number) => void;
  /** Charts of one name move their cursors together. */
  cursorGroup?: string;
}

const AXIS_FONT = "11px system-ui, sans-serif";
const CLICK_PIXELS = 4;
const DOUBLE_CLICK_MS = 250;
/** Between ticks of elapsed time: whole seconds, minutes, hours and days. */
const ELAPSED_STEPS = [
  ...[0.001, 0.01, 0.1, 0.5, 1, 2, 5, 10, 15, 30],
  ...[1, 2, 5, 10, 15, 30].map((minutes) => minutes * 60),
  ...[1, 2, 3, 6, 12].map((hours) => hours * 3600),
  ...[1, 2, 5, 10, 20, 50, 100].map((days) => days * 86400),
];

export function Chart(props: Props) {
  const { ref: measured, width } = useElementSize<HTMLDivElement>();
  const place = useRef<HTMLDivElement | null>(null);
  const ref = useMergedRef(measured, place);
  const scheme = useComputedColorScheme("light");
  const plot = useRef<uPlot | null>(null);
  const latest = useRef(props);
  latest.current = props;
  const height = props.height ?? 200;
  // What the plot is made of; the rest can change without making it anew.
  const shape = JSON.stringify([
    props.lines.map((line) => [line.label, line.color, line.width, line.faint, line.dash, line.points, line.gaps]),
    props.bands,
    props.axis,
    props.isLog,
    props.yRange,
    props.cursorGroup,
    scheme,
    props.title,
  ]);

  useEffect(() => {
    if (!width || !place.current) return;
    const made = new uPlot(options(latest, scheme, width, height), joined(latest.current.lines), place.current);
    plot.current = made;
    applyZoom(made, latest.current.zoom);
    return () => {
      made.destroy();
      plot.current = null;
    };
  }, [shape, width > 0]);

  useEffect(() => plot.current?.setSize({ width, height }), [width, height]);

  useEffect(() => {
    plot.current?.setData(joined(props.lines), false);
    if (plot.current) applyZoom(plot.current, props.zoom);
  }, [props.lines, props.zoom?.[0], props.zoom?.[1]]);

  return (
    <div
      ref={ref}
      role="img"
      aria-label={described(props)}
      // Points that can be opened are reached by keys as well.
      tabIndex={props.onPick ? 0 : undefined}
      onKeyDown={(event) => {
        if (plot.current && pressed(plot.current, props, event.key)) event.preventDefault();
      }}
      style={{ minHeight: height, width: "100%" }}
    />
  );
}

/** One x column for all lines, as the plot wants it. */
function joined(lines: Line[]): uPlot.AlignedData {
  if (lines.length === 0) return [[]];
  const first = lines[0]!;
  if (lines.every((line) => line.x === first.x)) {
    return [
      first.x,
      ...lines.map((line) => line.y),
    ] as unknown as uPlot.AlignedData;
  }
  return uPlot.join(lines.map((line) => [line.x, line.y] as unknown as uPlot.AlignedData));
}

function applyZoom(plot: uPlot, zoom: Range | null | undefined): void {
  const x = plot.data[0];
  const all: Range = x.length ? [x[0]!, x[x.length - 1]!] : [0, 1];
  const [min, max] = zoom ?? (all[0] === all[1] ? [all[0] - 0.5, all[1] + 0.5] : all);
  plot.setScale("x", { min, max });
}

function options(latest: { current: Props }, scheme: "light" | "dark", width: number, height: number): uPlot.Options {
  const { lines, bands, axis = "number", isLog, yRange, cursorGroup, formatY = number } = latest.current;
  const ink = scheme === "dark" ? "#c1c9d1" : "#4a5560";
  const grid = { stroke: scheme === "dark" ? "#33383f" : "#e8ecf0", width: 1 };
  const common = { stroke: ink, font: AXIS_FONT, grid, ticks: { ...grid, size: 4 } };
  return {
    width,
    height,
    padding: [8, 18, 0, 0],
    legend: { show: false },
    scales: {
      x: { time: axis === "time", ...(axis === "doubling" && { distr: 3, log: 2 }) },
      y: isLog ? { distr: 3, range: logRange } : yRange ? { range: yRange } : {},
    },
    axes: [
      {
        ...common,
        size: axis === "time" ? 44 : 28,
        values: axis === "time" ? undefined : (_plot, values) => values.map((value) => xText(axis, value)),
        incrs: axis === "elapsed" ? ELAPSED_STEPS : undefined,
        space: axis === "elapsed" ? 95 : 55,
      },
      { ...common, size: 58, values: (_plot, values) => values.map((value) => (value === null ? "" : formatY(value))) },
    ],
    series: [{}, ...lines.map((line) => series(line))],
    bands: bands?.map((band) => ({ series: [band.upper + 1, band.lower + 1], fill: band.fill })),
    cursor: {
      drag: { x: true, y: false, setScale: false, dist: CLICK_PIXELS },
      sync: cursorGroup ? { key: cursorGroup, setSeries: false } : undefined,
      y: false,
      points: { size: 6 },
      bind: { dblclick: () => () => (latest.current.onZoom?.(null), null) },
    },
    hooks: {
      setSelect: [(plot) => zoomed(plot, latest.current)],
      ready: [(plot) => listen(plot, latest)],
      draw: [(plot) => mark(plot, latest.current.lines)],
    },
    plugins: [tooltip(() => latest.current)],
  };
}

/** A little more than the values, which may all be the same, or none. */
function logRange(_plot: uPlot, low: number | null, high: number | null): Range {
  if (low === null || high === null || !(low > 0)) return [0.1, 1];
  const oneDigit = (value: number, round: (value: number) => number) => {
    const size = 10 ** Math.floor(Math.log10(value));
    return round(value / size) * size;
  };
  const wider = low === high ? 3 : 1;
  return [oneDigit(low / wider, Math.floor), oneDigit(high * wider, Math.ceil)];
}

/** Seconds as 45 s, 2 min 30 s or 1 h, without what is zero. */
function elapsedText(seconds: number): string {
  if (Math.abs(seconds) < 60) return `${number(seconds, 3)} s`;
  const units: [string, number][] = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];
  let left = Math.round(seconds);
  const parts = units.flatMap(([unit, size]) => {
    const count = Math.floor(left / size);
    left -= count * size;
    return count ? [`${count} ${unit}`] : [];
  });
  return parts.slice(0, 2).join(" ");
}

/** A place on the x axis in words. */
export function xText(axis: Axis, x: number): string {
  if (axis === "time") return new Date(x * 1000).toLocaleString();
  return axis === "elapsed" ? elapsedText(x) : number(x);
}

function mark(plot: uPlot, lines: Line[]): void {
  const { ctx, bbox } = plot;
  const size = 3 * devicePixelRatio;
  const foot = bbox.top + bbox.height - size;
  ctx.save();
  ctx.lineWidth = 1.5 * devicePixelRatio;
  for (const line of lines) {
    ctx.strokeStyle = line.color;
    for (const x of line.marks ?? []) {
      const at = plot.valToPos(x, "x", true);
      if (at < bbox.left || at > bbox.left + bbox.width) continue;
      ctx.beginPath();
      ctx.moveTo(at - size, foot - size);
      ctx.lineTo(at + size, foot + size);
      ctx.moveTo(at + size, foot - size);
      ctx.lineTo(at - size, foot + size);
      ctx.stroke();
    }
  }
  ctx.restore();
}

function series(line: Line): uPlot.Series {
  return {
    label: line.label,
    stroke: line.faint ? `${line.color}40` : line.color,
    width: line.width ?? (line.faint ? 1 : 1.6),
    dash: line.dash,
    spanGaps: !line.gaps,
    points: { show: line.points ?? (line.x.length === 1 ? true : undefined), size: 5 },
  };
}

function zoomed(plot: uPlot, props: Props): void {
  const { left, width } = plot.select;
  if (width <= CLICK_PIXELS) return;
  const range: Range = [plot.posToVal(left, "x"), plot.posToVal(left + width, "x")];
  plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
  props.onZoom?.(range);
}

/** A press without a drag picks the nearest point. */
function listen(plot: uPlot, latest: { current: Props }): void {
  let pressedAt = 0;
  let picking: ReturnType<typeof setTimeout> | undefined;
  plot.over.addEventListener("mousedown", (event) => (pressedAt = event.clientX));
  plot.over.addEventListener("dblclick", () => clearTimeout(picking));
  // Not "click": the plot takes a press near its edges, where the last point is, for a drag and swallows that.
  plot.over.addEventListener("mouseup", (event) => {
    if (event.button !== 0 || Math.abs(event.clientX - pressedAt) > CLICK_PIXELS || !plot.data[0].length) return;
    const x = plot.data[0][plot.posToIdx(event.clientX - plot.over.getBoundingClientRect().left)]!;
    clearTimeout(picking);
    // Where a second click would end the zoom, wait for it.
    picking = setTimeout(() => latest.current.onPick?.(x), latest.current.zoom ? DOUBLE_CLICK_MS : 0);
  });
  plot.over.style.cursor = latest.current.onPick ? "pointer" : "crosshair";
}

/** Arrows move along the points, Enter opens one, Escape shows all again. Says whether the key was one of them. */
function pressed(plot: uPlot, props: Props, key: string): boolean {
  if (key === "Escape" && props.zoom) props.onZoom?.(null);
  else if (key === "ArrowLeft" || key === "ArrowRight") move(plot, key === "ArrowLeft" ? -1 : 1);
  else if (key === "Enter" && typeof plot.cursor.idx === "number") props.onPick?.(plot.data[0][plot.cursor.idx]!);
  else return false;
  return true;
}

function move(plot: uPlot, by: number): void {
  const x = plot.data[0];
  const { min = -Infinity, max = Infinity } = plot.scales.x!;
  const first = x.findIndex((place) => place >= min!);
  const last = x.findLastIndex((place) => place <= max!);
  if (first < 0 || last < first) return;
  const from = plot.cursor.idx ?? (by > 0 ? first - 1 : last + 1);
  const index = Math.min(last, Math.max(first, from + by));
  plot.setCursor({ left: plot.valToPos(x[index]!, "x"), top: plot.over.clientHeight / 2 });
}

function described({ title, lines }: Props): string {
  const parts = lines.filter((line) => !line.faint).slice(0, 10).map((line) => {
    let last: number | null = null;
    for (let i = line.y.length - 1; i >= 0 && last === null; i--) last = line.y[i] ?? null;
    return `${line.label}: ${line.y.length.toLocaleString("en-US")} points, last ${
      last === null ? UNKNOWN : number(last)
    }`;
  });
  return `${title}. ${parts.join("; ") || "No points yet"}.`;
}
