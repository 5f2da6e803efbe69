/** How the charts are looked at, held by the URL so that a link shows the same. */
import type { Range } from "@/components/chart/chart.tsx";
import { useView } from "@/view/url_state.ts";
import type { XAxis } from "./lines.ts";

const DEFAULTS = {
  metric: "",
  smooth: 0,
  log: false,
  axis: "step",
  from: null as string | null,
  to: null as string | null,
  closed: [] as string[],
};

export interface ChartView {
  filter: string;
  smoothing: number;
  isLog: boolean;
  axis: XAxis;
  zoom: Range | null;
  closed: string[];
}

export interface ChangeChartView {
  filter: (text: string) => void;
  smoothing: (weight: number) => void;
  isLog: (on: boolean) => void;
  axis: (axis: XAxis) => void;
  zoom: (range: Range | null) => void;
  toggle: (prefix: string) => void;
}

export function useChartView(): [ChartView, ChangeChartView] {
  const [state, change] = useView(DEFAULTS);
  const from = Number(state.from);
  const to = Number(state.to);
  const isZoomed = state.from !== null && state.to !== null && from < to;
  const view: ChartView = {
    filter: state.metric,
    smoothing: Math.min(0.99, Math.max(0, state.smooth)),
    isLog: state.log,
    axis: state.axis === "elapsed" || state.axis === "time" ? state.axis : "step",
    zoom: isZoomed ? [from, to] : null,
    closed: state.closed,
  };
  return [view, {
    filter: (metric) => change({ metric }),
    smoothing: (smooth) => change({ smooth }),
    isLog: (log) => change({ log }),
    // A stretch of steps is none of seconds.
    axis: (axis) => change({ axis, from: null, to: null }),
    zoom: (range) => change({ from: range && rounded(range[0], range), to: range && rounded(range[1], range) }),
    toggle: (prefix) =>
      change({
        closed: state.closed.includes(prefix) ? state.closed.filter((is) => is !== prefix) : [...state.closed, prefix],
      }),
  }];
}

/** As many digits as the stretch needs: addresses are read by people. */
function rounded(value: number, [from, to]: Range): string {
  const digits = Math.max(0, Math.min(9, 3 - Math.floor(Math.log10(to - from))));
  return String(Number(value.toFixed(digits)));
}
