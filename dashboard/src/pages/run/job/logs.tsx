/** What a job printed, as it comes: the end is followed until one scrolls back. */
import { Button, Group, Select, Switch, Text } from "@mantine/core";
import { useVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "react";
import { isActiveJob, type Job } from "@/api/jobs.ts";
import { plain } from "@/components/agent_text.tsx";
import { Failed } from "@/components/states.tsx";
import { bytes } from "@/view/format.ts";
import classes from "./job.module.css";
import { linesOf } from "./log_window.ts";
import { type Log, useLog } from "./use_log.ts";

const LINE_PIXELS = 19;
/** So near to an edge is at it. */
const EDGE_PIXELS = 24;

export function JobLogs({ job }: { job: Job }) {
  const [chosen, choose] = useState<number | null>(null);
  const attempt = chosen ?? job.attempt;
  return <Attempt key={`${job.id} ${attempt}`} {...{ job, attempt, choose }} />;
}

function Attempt({ job, attempt, choose }: { job: Job; attempt: number; choose: (attempt: number | null) => void }) {
  const isCurrent = attempt === job.attempt;
  const log = useLog(job.training_run_id ?? "*", job.id, attempt, isCurrent && isActiveJob(job.status));
  const [follow, setFollow] = useState(true);
  const change = (value: boolean) => {
    setFollow(value);
    if (value) log.showEnd();
  };
  return (
    <>
      <Group mb="xs" gap="8px 16px">
        {job.attempt > 1 && (
          <Select
            size="xs"
            w={150}
            aria-label="Attempt"
            allowDeselect={false}
            data={Array.from({ length: job.attempt }, (_, place) => ({
              value: String(job.attempt - place),
              label: `Attempt ${job.attempt - place}`,
            }))}
            value={String(attempt)}
            onChange={(value) => choose(Number(value) === job.attempt ? null : Number(value))}
          />
        )}
        <Switch label="Follow" checked={follow} onChange={({ currentTarget }) => change(currentTarget.checked)} />
        <Text size="sm" c="dimmed">
          {log.window.start > 0 || log.window.end < log.end
            ? `${bytes(log.window.end - log.window.start)} of ${bytes(log.end)} are shown`
            : bytes(log.end)}
        </Text>
        {log.window.start > 0 && (
          <Button
            size="compact-xs"
            variant="default"
            loading={log.isReading}
            onClick={() => void log.readEarlier()}
          >
            Earlier
          </Button>
        )}
        {log.window.end < log.end && !follow && (
          <Button
            size="compact-xs"
            variant="default"
            onClick={() => change(true)}
          >
            To the end
          </Button>
        )}
      </Group>
      {log.error && <Failed error={log.error} />}
      <Lines log={log} follow={follow} setFollow={setFollow} isActive={isCurrent && isActiveJob(job.status)} />
    </>
  );
}

interface LinesProps {
  log: Log;
  follow: boolean;
  setFollow: (follow: boolean) => void;
  isActive: boolean;
}

function Lines({ log, follow, setFollow, isActive }: LinesProps) {
  const place = useRef<HTMLDivElement>(null);
  const lines = useMemo(() => linesOf(log.window.text), [log.window.text]);
  const list = useVirtualizer({
    count: lines.length,
    getScrollElement: () => place.current,
    estimateSize: () => LINE_PIXELS,
    overscan: 20,
  });
  const before = useRef({ start: log.window.start, lines: lines.length });

  // What comes in above moves what is looked at down; stay with it.
  useLayoutEffect(() => {
    const last = before.current;
    before.current = { start: log.window.start, lines: lines.length };
    if (place.current && log.window.start < last.start && !follow) {
      place.current.scrollTop += Math.max(0, lines.length - last.lines) * LINE_PIXELS;
    }
  }, [log.window.start, lines.length, follow]);
  useEffect(() => {
    if (follow && lines.length) list.scrollToIndex(lines.length - 1, { align: "end" });
  }, [follow, lines, list]);

  const scrolled = () => {
    const { scrollTop, scrollHeight, clientHeight } = place.current!;
    const isAtEnd = scrollHeight - scrollTop - clientHeight < EDGE_PIXELS;
    if (!isAtEnd && follow) setFollow(false);
    if (isAtEnd && !follow && log.window.end >= log.end) setFollow(true);
    if (scrollTop < EDGE_PIXELS && !follow && log.window.start > 0) void log.readEarlier();
  };
  if (lines.length === 0 && !log.isReading) {
    return (
      <Text size="sm" c="dimmed">
        {isActive ? "Nothing has been printed yet." : "This attempt printed nothing."}
      </Text>
    );
  }
  return (
    <div
      ref={place}
      className={classes.log}
      role="region"
      aria-label="Log of the job"
      tabIndex={0}
      onWheel={scrolled}
      onKeyUp={scrolled}
      onTouchMove={scrolled}
      onPointerUp={scrolled}
    >
      <div style={{ height: list.getTotalSize(), position: "relative" }} data-agent-text>
        {list.getVirtualItems().map(({ index, start }) => (
          <pre key={index} className={classes.line} style={{ transform: `translateY(${start}px)` }}>
            {plain(lines[index]!) || " "}
          </pre>
        ))}
      </div>
    </div>
  );
}
