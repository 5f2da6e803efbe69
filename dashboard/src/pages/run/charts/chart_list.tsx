/** The charts in rows, of which only those near the screen exist: a run may have thousands. */
import { Text, UnstyledButton } from "@mantine/core";
import { useElementSize, useMergedRef } from "@mantine/hooks";
import { IconChevronDown, IconChevronRight } from "@tabler/icons-react";
import { useWindowVirtualizer } from "@tanstack/react-virtual";
import { useLayoutEffect, useMemo, useRef, useState } from "react";
import { plain } from "@/components/agent_text.tsx";
import classes from "./charts.module.css";
import type { Section } from "./groups.ts";
import { CHART_HEIGHT, MetricChart, type MetricChartProps } from "./metric_chart.tsx";

const NARROWEST_CHART = 320;
const HEADING_HEIGHT = 38;
const ROW_HEIGHT = CHART_HEIGHT + 68;

type ListRow = { kind: "heading"; section: Section; isOpen: boolean } | { kind: "charts"; names: string[] };

function rowsOf(sections: Section[], closed: string[], columns: number): ListRow[] {
  return sections.flatMap((section) => {
    const isOpen = !closed.includes(section.prefix);
    const rows: ListRow[] = [{ kind: "heading", section, isOpen }];
    for (let at = 0; isOpen && at < section.names.length; at += columns) {
      rows.push({ kind: "charts", names: section.names.slice(at, at + columns) });
    }
    return rows;
  });
}

type Props = Omit<MetricChartProps, "name" | "width"> & { sections: Section[] };

export function ChartList({ sections, ...chart }: Props) {
  const { ref: measured, width } = useElementSize<HTMLDivElement>();
  const place = useRef<HTMLDivElement>(null);
  const ref = useMergedRef(measured, place);
  const columns = Math.max(1, Math.min(4, Math.floor((width + 10) / (NARROWEST_CHART + 10))));
  const { closed } = chart.view;
  const rows = useMemo(() => rowsOf(sections, closed, columns), [sections, closed, columns]);
  const scrollMargin = useTop(place);
  const list = useWindowVirtualizer({
    count: width ? rows.length : 0,
    estimateSize: (at) => (rows[at]!.kind === "heading" ? HEADING_HEIGHT : ROW_HEIGHT),
    getItemKey: (at) => keyOf(rows[at]!),
    overscan: 2,
    scrollMargin,
  });
  return (
    <div ref={ref} className={classes.list} style={{ height: list.getTotalSize() }}>
      {list.getVirtualItems().map((item) => {
        const row = rows[item.index]!;
        return (
          <div
            key={item.key}
            ref={list.measureElement}
            data-index={item.index}
            className={classes.row}
            style={{ transform: `translateY(${item.start - scrollMargin}px)` }}
          >
            {row.kind === "heading"
              ? <Heading {...row} onToggle={() => chart.change.toggle(row.section.prefix)} />
              : (
                <div className={classes.charts} style={{ gridTemplateColumns: `repeat(${columns}, minmax(0, 1fr))` }}>
                  {row.names.map((name) => (
                    <MetricChart
                      key={name}
                      name={name}
                      width={width / columns}
                      isPassing={list.isScrolling}
                      {...chart}
                    />
                  ))}
                </div>
              )}
          </div>
        );
      })}
    </div>
  );
}

function keyOf(row: ListRow): string {
  return row.kind === "heading" ? `heading ${row.section.prefix}` : `charts ${row.names[0]}`;
}

function Heading({ section, isOpen, onToggle }: { section: Section; isOpen: boolean; onToggle: () => void }) {
  const Chevron = isOpen ? IconChevronDown : IconChevronRight;
  return (
    <h2 className={classes.heading}>
      <UnstyledButton
        onClick={onToggle}
        aria-expanded={isOpen}
        style={{ display: "inline-flex", alignItems: "center", gap: 6, fontWeight: 600 }}
      >
        <Chevron size={16} aria-hidden />
        {plain(section.prefix) || "Without a prefix"}
        <Text span size="sm" c="dimmed">{section.names.length.toLocaleString("en-US")}</Text>
      </UnstyledButton>
    </h2>
  );
}

/** How far below the top of the page an element begins; what stands above it may grow. */
function useTop(place: React.RefObject<HTMLElement | null>): number {
  const [top, setTop] = useState(0);
  useLayoutEffect(() => {
    const measure = () => place.current && setTop(Math.round(place.current.getBoundingClientRect().top + scrollY));
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(document.body);
    return () => observer.disconnect();
  }, [place]);
  return top;
}
