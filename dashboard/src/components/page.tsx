/** What pages are built of: a head, sections, facts, times. */
import { Anchor, Breadcrumbs, Group, Paper, Stack, Text, Title } from "@mantine/core";
import { useDocumentTitle, useInterval } from "@mantine/hooks";
import { type ReactNode, useState } from "react";
import { Link } from "react-router";
import { ago, dateTime } from "@/view/format.ts";

export interface Crumb {
  label: string;
  to: string;
}

export function PageHead({ title, crumbs = [], aside, children }: {
  title: string;
  crumbs?: Crumb[];
  aside?: ReactNode;
  children?: ReactNode;
}) {
  useDocumentTitle(`${title} · OpenManus-RL`);
  return (
    <Stack gap={4} mb="md">
      {crumbs.length > 0 && (
        <Breadcrumbs component="nav" aria-label="Where this is" separatorMargin={6} fz="sm">
          {crumbs.map(({ label, to }) => (
            <Anchor key={to} component={Link} to={to} size="sm" maw={320} truncate title={label}>{label}</Anchor>
          ))}
        </Breadcrumbs>
      )}
      <Group justify="space-between" align="flex-start" gap="sm">
        <Title order={1} size="h3" dir="auto" ta="left" style={{ flex: "1 1 240px", minWidth: 0 }}>{title}</Title>
        {aside && <Group gap="xs">{aside}</Group>}
      </Group>
      {children}
    </Stack>
  );
}

export function Section({ title, aside, children }: { title: string; aside?: ReactNode; children: ReactNode }) {
  return (
    <Paper component="section" aria-label={title} withBorder p="md">
      <Group justify="space-between" mb="sm" gap="xs">
        <Title order={2} size="h5">{title}</Title>
        {aside && <Group gap="xs">{aside}</Group>}
      </Group>
      {children}
    </Paper>
  );
}

/** A figure with its name, as in a row of figures. */
export function Figure(
  { label, value, hint, tone }: { label: string; value: ReactNode; hint?: ReactNode; tone?: "bad" | "warn" },
) {
  const color = tone === "bad" ? "var(--om-bad)" : tone === "warn" ? "var(--om-warn)" : undefined;
  return (
    <div className="om-tile">
      <Text size="xs" c="dimmed" lineClamp={2} title={label}>{label}</Text>
      <Text component="div" fw={650} size="lg" style={{ color }}>{value}</Text>
      {hint && <Text size="xs" c="dimmed" component="div">{hint}</Text>}
    </div>
  );
}

/** How long ago, kept true while one looks; the exact time on hover. */
export function Ago({ time }: { time: string | null | undefined }) {
  const [now, setNow] = useState(Date.now);
  useInterval(() => setNow(Date.now()), 5_000, { autoInvoke: true });
  return <time dateTime={time ?? undefined} title={dateTime(time)}>{ago(time, Math.max(now, Date.now() - 5_000))}
  </time>;
}
