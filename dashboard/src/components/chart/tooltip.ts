/** The values under the cursor, beside it. Texts are set as text: names of metrics and runs are anyone's. */
import type uPlot from "uplot";
import { number } from "@/view/format.ts";
import { type Axis, type Line, xText } from "./chart.tsx";

interface Shown {
  lines: Line[];
  axis?: Axis;
  formatY?: (value: number) => string;
  onPick?: unknown;
}

const MAX_LINES = 12;

export function tooltip(shown: () => Shown): uPlot.Plugin {
  let box: HTMLDivElement;
  return {
    hooks: {
      init: (plot) => {
        box = document.createElement("div");
        box.className = "om-tooltip";
        box.hidden = true;
        plot.over.append(box);
      },
      setCursor: (plot) => {
        const { idx, left = -1 } = plot.cursor;
        // Of charts that share a cursor only the one under the pointer shows its values.
        const isHere = plot.over.matches(":hover") || plot.root.parentElement?.matches(":focus-visible");
        box.hidden = idx === null || idx === undefined || left < 0 || !isHere;
        if (!box.hidden) fill(box, plot, idx!, shown());
      },
    },
  };
}

function fill(
  box: HTMLDivElement,
  plot: uPlot,
  index: number,
  { lines, axis = "number", formatY = number }: Shown,
): void {
  const x = plot.data[0][index]!;
  const head = document.createElement("strong");
  head.textContent = xText(axis, x);
  const rows = lines.flatMap((line, place) => {
    const value = plot.data[place + 1]?.[index];
    return line.faint || value === null || value === undefined ? [] : [row(line, formatY(value))];
  });
  box.replaceChildren(head, ...rows.slice(0, MAX_LINES));
  const isRight = plot.cursor.left! > plot.over.clientWidth / 2;
  box.style.left = isRight ? "" : `${plot.cursor.left! + 12}px`;
  box.style.right = isRight ? `${plot.over.clientWidth - plot.cursor.left! + 12}px` : "";
}

function row(line: Line, value: string): HTMLDivElement {
  const made = document.createElement("div");
  const dot = document.createElement("i");
  dot.style.background = line.color;
  const name = document.createElement("span");
  name.textContent = line.label;
  const number = document.createElement("b");
  number.textContent = value;
  made.append(dot, name, number);
  return made;
}
