/** A grid world as a picture, from its spec alone. */
import { type KeyboardEvent, useId, useState } from "react";
import { plain } from "@/components/agent_text.tsx";
import type { Grid } from "./grid.ts";
import type { Cell, ObjectKind } from "./grid_terms.ts";
import classes from "./environment.module.css";

interface Props {
  grid: Grid;
  /** Someone pointed at a cell, or pressed Enter on it. */
  onPick?: (cell: Cell) => void;
}

const MOVES: Record<string, Cell> = {
  ArrowLeft: [-1, 0],
  ArrowRight: [1, 0],
  ArrowUp: [0, -1],
  ArrowDown: [0, 1],
};

export function GridPicture({ grid, onPick }: Props) {
  const pattern = useId();
  const [at, setAt] = useState<Cell>([0, 0]);
  const [isFocused, setFocused] = useState(false);
  const cursor: Cell = [Math.min(at[0], grid.width - 1), Math.min(at[1], grid.height - 1)];
  const pressed = (event: KeyboardEvent) => {
    const move = MOVES[event.key];
    if (move) {
      const within = (value: number, size: number) => Math.min(size - 1, Math.max(0, value));
      setAt([within(cursor[0] + move[0], grid.width), within(cursor[1] + move[1], grid.height)]);
    } else if (event.key === "Enter" || event.key === " ") onPick?.(cursor);
    else return;
    event.preventDefault();
  };
  return (
    <svg
      className={classes.grid}
      viewBox={`0 0 ${grid.width} ${grid.height}`}
      style={{ aspectRatio: `${grid.width} / ${grid.height}` }}
      role="img"
      aria-label={describe(grid, onPick ? cursor : null)}
      data-editable={onPick ? true : undefined}
      tabIndex={onPick ? 0 : undefined}
      onKeyDown={onPick && pressed}
      onFocus={() => setFocused(true)}
      onBlur={() => setFocused(false)}
      onClick={onPick && ((event) => {
        const box = event.currentTarget.getBoundingClientRect();
        const x = Math.floor((event.clientX - box.left) / box.width * grid.width);
        const y = Math.floor((event.clientY - box.top) / box.height * grid.height);
        setAt([x, y]);
        onPick([x, y]);
      })}
    >
      <defs>
        <pattern id={pattern} width={1} height={1} patternUnits="userSpaceOnUse">
          <path d="M1 0H0V1" className={classes.gridLine} />
        </pattern>
      </defs>
      <rect width={grid.width} height={grid.height} className={classes.floor} />
      <rect width={grid.width} height={grid.height} fill={`url(#${pattern})`} />
      <path className={classes.wall} d={grid.walls.map(([x, y]) => `M${x} ${y}h1v1h-1z`).join("")} />
      {grid.things.flatMap(({ name, kind, color, cells }) =>
        cells.map((cell) => <Sprite key={`${name} ${cell}`} cell={cell} title={name}>{SPRITES[kind](color)}</Sprite>)
      )}
      {grid.agents.map(({ name, moves, color, start }) =>
        start && (
          <Sprite key={name} cell={start} title={name}>
            {moves === "trained"
              ? <path d="M.9 .5L.18 .83L.34 .5L.18 .17z" fill={color} stroke={DARK} strokeWidth={0.04} />
              : other(color)}
          </Sprite>
        )
      )}
      {onPick && isFocused && <rect x={cursor[0]} y={cursor[1]} width={1} height={1} className={classes.cursor} />}
    </svg>
  );
}

function Sprite({ cell: [x, y], title, children }: { cell: Cell; title: string; children: React.ReactNode }) {
  return (
    <g transform={`translate(${x} ${y})`}>
      <title>{plain(title)}</title>
      {children}
    </g>
  );
}

const DARK = "#0006";
const STAR = Array.from({ length: 10 }, (_, number) => {
  const [radius, angle] = [number % 2 === 0 ? 0.36 : 0.16, Math.PI * (number / 5 - 0.5)];
  return `${(0.5 + radius * Math.cos(angle)).toFixed(3)},${(0.53 + radius * Math.sin(angle)).toFixed(3)}`;
}).join(" ");

const SPRITES: Record<ObjectKind, (color: string) => React.ReactNode> = {
  goal: (color) => (
    <>
      <rect x={0.06} y={0.06} width={0.88} height={0.88} rx={0.16} fill={color} opacity={0.3} />
      <polygon points={STAR} fill={color} />
    </>
  ),
  item: (color) => (
    <>
      <polygon points=".5,.16 .8,.5 .5,.84 .2,.5" fill={color} stroke={DARK} strokeWidth={0.06} />
      <polygon points=".5,.2 .5,.5 .24,.5" fill="#fff8" />
    </>
  ),
  trap: (color) => (
    <>
      <rect x={0.03} y={0.03} width={0.94} height={0.94} rx={0.1} fill={color} />
      {[0.3, 0.52, 0.74].map((y) => (
        <path key={y} d={`M.14 ${y}q.09 -.11 .18 0t.18 0t.18 0t.18 0`} fill="none" stroke={DARK} strokeWidth={0.06} />
      ))}
    </>
  ),
  block: (color) => (
    <>
      <rect x={0.08} y={0.08} width={0.84} height={0.84} rx={0.06} fill={color} stroke={DARK} strokeWidth={0.07} />
      <path d="M.2 .2L.8 .8M.8 .2L.2 .8" stroke={DARK} strokeWidth={0.07} />
    </>
  ),
};

function other(color: string) {
  return (
    <>
      <circle cx={0.5} cy={0.5} r={0.33} fill={color} stroke={DARK} strokeWidth={0.06} />
      {[0.39, 0.61].map((x) => (
        <g key={x}>
          <circle cx={x} cy={0.44} r={0.085} fill="#fff" />
          <circle cx={x} cy={0.45} r={0.04} fill="#22252b" />
        </g>
      ))}
    </>
  );
}

/** What is where, for those who cannot see it; with a cursor, what is under it. */
function describe(grid: Grid, cursor: Cell | null): string {
  const counts = grid.things.map(({ name, cells }) => `${cells.length} ${plain(name)}`);
  const size = `Grid of ${grid.width} by ${grid.height} cells, ${grid.walls.length} of them walls`;
  const whole = [size, ...counts].join(", ");
  if (!cursor) return whole;
  const is = ([x, y]: Cell) => x === cursor[0] && y === cursor[1];
  const found = grid.walls.some(is) ? "wall" : grid.things.find(({ cells }) => cells.some(is))?.name ??
    grid.agents.find(({ start }) => start && is(start))?.name ?? "free";
  return `${whole}. Column ${cursor[0]}, row ${cursor[1]}: ${plain(found)}`;
}

/** What is not at a fixed cell, in words: a picture would show it at a wrong one. */
export function elsewhere(grid: Grid): string[] {
  return [
    ...grid.things.filter(({ random }) => random > 0).map(({ name, random }) => `${random} × ${plain(name)}`),
    ...grid.agents.filter(({ start }) => !start).map(({ name }) => plain(name)),
  ];
}
