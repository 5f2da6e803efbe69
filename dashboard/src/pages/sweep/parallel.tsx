/** Parallel coordinates: each trial a line over the axes of its parameters and its result. */
import { Button, Group, Popover, RangeSlider, Text, useComputedColorScheme } from "@mantine/core";
import { useElementSize } from "@mantine/hooks";
import { type PointerEvent, useEffect, useMemo, useRef, useState } from "react";
import { plain } from "@/components/agent_text.tsx";
import { type Axis, type Brushes, colorAt, nearestLine, passes } from "./scales.ts";
import classes from "./sweep.module.css";

export interface Line {
  trial: number;
  places: (number | null)[];
}

interface Props {
  axes: Axis[];
  lines: Line[];
  brushes: Brushes;
  setBrushes: (brushes: Brushes) => void;
  hovered: number | null;
  setHovered: (trial: number | null) => void;
}

const HEIGHT = 260;
const TOP = 14;
const FOOT = 14;
const SIDE = 56;
const AXIS_PIXELS = 110;
/** So far from a line is near it. */
const NEAR = 0.04;
/** A press without a drag takes the brush away. */
const CLICK = 0.02;

export function ParallelCoordinates(props: Props) {
  const { axes, lines, brushes, setBrushes } = props;
  const { ref, width: room } = useElementSize();
  const width = Math.max(room, 2 * SIDE + AXIS_PIXELS * (axes.length - 1));
  const gap = axes.length > 1 ? (width - 2 * SIDE) / (axes.length - 1) : 0;
  const brushed = Object.keys(brushes).length > 0;
  const kept = useMemo(
    () => brushed ? lines.filter(({ places }) => passes(axes, places, brushes)) : lines,
    [axes, brushed, brushes, lines],
  );
  return (
    <div ref={ref}>
      <div className={classes.scroller} role="region" aria-label="Parallel coordinates" tabIndex={0}>
        <div style={{ width, position: "relative" }}>
          <div className={classes.heads}>
            {axes.map((axis, number) => (
              <Head
                key={axis.name}
                axis={axis}
                left={SIDE + number * gap}
                brush={brushes[axis.name]}
                change={(brush) => setBrushes(changed(brushes, axis.name, brush))}
              />
            ))}
          </div>
          <Plot {...props} kept={kept} width={width} gap={gap} />
        </div>
      </div>
      <Group gap="sm" mt={4}>
        <Text size="xs" c="dimmed" role="status">
          {kept.length === lines.length
            ? "Drag along an axis, or press its name, to keep only the trials there."
            : `${kept.length} of ${lines.length} trials are kept.`}
        </Text>
        {brushed && <Button size="compact-xs" variant="default" onClick={() => setBrushes({})}>Show all</Button>}
      </Group>
    </div>
  );
}

function changed(brushes: Brushes, name: string, brush: [number, number] | null): Brushes {
  const { [name]: _before, ...rest } = brushes;
  return brush ? { ...rest, [name]: brush } : rest;
}

interface HeadProps {
  axis: Axis;
  left: number;
  brush: [number, number] | undefined;
  change: (brush: [number, number] | null) => void;
}

/** The name of an axis, and its stretch as a slider for the keyboard. */
function Head({ axis, left, brush, change }: HeadProps) {
  const value: [number, number] = brush ? [brush[0] * 100, brush[1] * 100] : [0, 100];
  return (
    <Popover width={260} position="bottom" withArrow trapFocus>
      <Popover.Target>
        <button type="button" className={classes.head} style={{ left }} title={plain(axis.name || axis.label)}>
          {plain(axis.label)}
          {brush && " •"}
        </button>
      </Popover.Target>
      <Popover.Dropdown>
        <Text size="sm" fw={550} mb="xs">{plain(axis.name || axis.label)}</Text>
        <RangeSlider
          value={value}
          onChange={([from, to]) => change(from <= 0 && to >= 100 ? null : [from / 100, to / 100])}
          minRange={0}
          label={(at) => plain(axis.words(at / 100))}
          thumbFromLabel="From"
          thumbToLabel="To"
        />
        <Text size="xs" c="dimmed" mt="xs">
          {plain(axis.words(value[0] / 100))} to {plain(axis.words(value[1] / 100))}
        </Text>
        <Button size="compact-xs" variant="default" mt="xs" disabled={!brush} onClick={() => change(null)}>All</Button>
      </Popover.Dropdown>
    </Popover>
  );
}

interface PlotProps extends Props {
  kept: Line[];
  width: number;
  gap: number;
}

const yOf = (place: number) => TOP + (1 - place) * (HEIGHT - TOP - FOOT);
const placeOf = (y: number) => Math.min(1, Math.max(0, 1 - (y - TOP) / (HEIGHT - TOP - FOOT)));

function Plot({ axes, lines, kept, brushes, setBrushes, hovered, setHovered, width, gap }: PlotProps) {
  const [drag, setDrag] = useState<{ axis: number; from: number; to: number } | null>(null);
  const xOf = (number: number) => SIDE + number * gap;
  const spot = (event: PointerEvent) => {
    const box = event.currentTarget.getBoundingClientRect();
    const x = gap ? (event.clientX - box.left - SIDE) / gap : 0;
    return { x, y: placeOf((event.clientY - box.top) * HEIGHT / box.height) };
  };
  const down = (event: PointerEvent) => {
    const { x, y } = spot(event);
    const axis = Math.round(x);
    if (Math.abs(x - axis) * gap > 18 || !axes[axis]) return;
    event.currentTarget.setPointerCapture(event.pointerId);
    setDrag({ axis, from: y, to: y });
  };
  const move = (event: PointerEvent) => {
    const { x, y } = spot(event);
    if (drag) return setDrag({ ...drag, to: y });
    const found = nearestLine(kept.map(({ places }) => places), Math.max(0, x), y, NEAR);
    setHovered(found === null ? null : kept[found]!.trial);
  };
  const up = () => {
    if (!drag) return;
    const stretch: [number, number] = [Math.min(drag.from, drag.to), Math.max(drag.from, drag.to)];
    const name = axes[drag.axis]!.name;
    setBrushes(changed(brushes, name, stretch[1] - stretch[0] < CLICK ? null : stretch));
    setDrag(null);
  };
  const marked = hovered === null ? undefined : lines.find(({ trial }) => trial === hovered);
  return (
    <div style={{ position: "relative", height: HEIGHT }}>
      <Canvas {...{ lines, kept, width, xOf, hovered }} />
      <svg
        width={width}
        height={HEIGHT}
        className={classes.axes}
        aria-hidden
        onPointerDown={down}
        onPointerMove={move}
        onPointerUp={up}
        onPointerLeave={() => setHovered(null)}
      >
        {marked && <path d={pathOf(marked.places, xOf)} className={classes.marked} />}
        {axes.map((axis, number) => {
          const brush = drag?.axis === number
            ? [Math.min(drag.from, drag.to), Math.max(drag.from, drag.to)] as const
            : brushes[axis.name];
          return (
            <g key={axis.name} transform={`translate(${xOf(number)} 0)`}>
              <line y1={TOP} y2={HEIGHT - FOOT} className={classes.axis} />
              <rect x={-18} y={0} width={36} height={HEIGHT} fill="transparent" className={classes.grip} />
              {axis.ticks.map(({ at, label }) => (
                <text key={label + at} x={6} y={yOf(at) + 4} className={classes.tick}>{cut(plain(label))}</text>
              ))}
              {brush && (
                <rect
                  x={-5}
                  width={10}
                  y={yOf(brush[1]) - 2}
                  height={Math.max(4, yOf(brush[0]) - yOf(brush[1]) + 4)}
                  className={classes.brush}
                />
              )}
            </g>
          );
        })}
      </svg>
    </div>
  );
}

function cut(label: string): string {
  return label.length > 14 ? `${label.slice(0, 13)}…` : label;
}

function pathOf(places: (number | null)[], xOf: (number: number) => number): string {
  let path = "";
  places.forEach((place, number) => {
    if (place === null) return;
    path += `${places[number - 1] === null || path === "" ? "M" : "L"}${xOf(number).toFixed(1)} ${
      yOf(place).toFixed(1)
    }`;
  });
  return path;
}

interface CanvasProps {
  lines: Line[];
  kept: Line[];
  width: number;
  xOf: (number: number) => number;
  hovered: number | null;
}

/** Thousands of lines are drawn at once, not as elements of the page. */
function Canvas({ lines, kept, width, xOf, hovered }: CanvasProps) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const scheme = useComputedColorScheme("light");
  const isFaint = hovered !== null;
  useEffect(() => {
    const context = canvas.current?.getContext("2d");
    if (!canvas.current || !context) return;
    const ratio = devicePixelRatio || 1;
    canvas.current.width = width * ratio;
    canvas.current.height = HEIGHT * ratio;
    context.scale(ratio, ratio);
    context.lineWidth = kept.length > 500 ? 0.7 : 1.4;
    const shown = new Set(kept);
    const draw = ({ places }: Line, color: string, opacity: number) => {
      context.globalAlpha = opacity;
      context.strokeStyle = color;
      context.stroke(new Path2D(pathOf(places, xOf)));
    };
    const opacity = kept.length > 2_000 ? 0.25 : kept.length > 300 ? 0.5 : 0.85;
    for (const line of lines) if (!shown.has(line)) draw(line, scheme === "dark" ? "#444b54" : "#d5dade", 0.35);
    for (const line of kept) draw(line, colorAt(line.places.at(-1) ?? null), isFaint ? opacity / 3 : opacity);
  }, [kept, lines, scheme, width, isFaint]);
  return <canvas ref={canvas} style={{ width, height: HEIGHT, position: "absolute", inset: 0 }} aria-hidden />;
}
