import { Code, Stack, Text } from "@mantine/core";
import type { Place } from "@/api/paging.ts";
import {
  nextStatusPage,
  readMemberNames,
  readRewinds,
  readStatusChanges,
  type Rewind,
  type Run,
  type StatusChange,
} from "@/api/run.ts";
import { plain } from "@/components/agent_text.tsx";
import { Section } from "@/components/page.tsx";
import { Empty, Failed, Found, Loading } from "@/components/states.tsx";
import { StatusBadge } from "@/components/status.tsx";
import { useLive, useLivePages } from "@/live/query.ts";
import { ago, dateTime, number, shortId, UNKNOWN } from "@/view/format.ts";
import { Listing, moreOf } from "./listing.tsx";

/** What became of the run, by whom and when. */
export function HistoryTab({ run }: { run: Run }) {
  const changes = useLivePages(
    run.id,
    ["run history", run.id],
    (from: Place | null, signal) => readStatusChanges(run.id, from, signal),
    nextStatusPage,
  );
  const rows = changes.data?.pages.flat();
  const people = [...new Set((rows ?? []).flatMap(({ changed_by }) => changed_by ?? []))].sort();
  const names = useLive(null, ["member names", people], (signal) => readMemberNames(people, signal), {
    enabled: people.length > 0,
  });
  const by = (id: string | null) => (id ? plain(names.data?.get(id) ?? `member ${shortId(id)}`) : "the service");
  return (
    <Stack gap="sm">
      <Section title="Status history">
        {!rows && (changes.error
          ? <Failed error={changes.error} retry={() => void changes.refetch()} />
          : <Loading what="Reading the history" />)}
        {rows?.length === 0 && <Empty title="No change of status yet">The first comes when the run starts.</Empty>}
        {rows && rows.length > 0 && (
          <Listing<StatusChange>
            label="Status history"
            rows={rows}
            keyOf={(change) => change.id}
            more={moreOf(changes)}
            columns={[
              { label: "When", show: (change) => <When time={change.changed_at} /> },
              {
                label: "From",
                show: (change) => (change.old_status ? <StatusBadge status={change.old_status} /> : UNKNOWN),
              },
              { label: "To", show: (change) => <StatusBadge status={change.new_status} /> },
              { label: "By", show: (change) => by(change.changed_by) },
              {
                label: "Message",
                isWide: true,
                show: (change) => (
                  <Text size="sm" lineClamp={6}>{change.message ? plain(change.message) : UNKNOWN}</Text>
                ),
              },
            ]}
          />
        )}
      </Section>
      <Rewinds run={run} />
    </Stack>
  );
}

function When({ time }: { time: string }) {
  return <time dateTime={time} title={ago(time)}>{dateTime(time)}</time>;
}

function Rewinds({ run }: { run: Run }) {
  const query = useLive(run.id, ["run rewinds", run.id], (signal) => readRewinds(run.id, signal));
  return (
    <Section title="Rewinds">
      <Found query={query} what="Reading the rewinds">
        {(rewinds) =>
          rewinds.length
            ? (
              <Listing<Rewind>
                label="Rewinds"
                rows={rewinds}
                keyOf={(rewind) => rewind.id}
                columns={[
                  { label: "When", show: (rewind) => <When time={rewind.created_at} /> },
                  { label: "Timeline", isNumber: true, show: (rewind) => number(rewind.timeline) },
                  {
                    label: "Back to",
                    show: (rewind) => (rewind.to_step < 0 ? "before the first step" : `step ${number(rewind.to_step)}`),
                  },
                ]}
              />
            )
            : (
              <Text size="sm" c="dimmed">
                Never rewound. A loop that starts again from a checkpoint says so with <Code>rewind_to_step=…</Code>
              </Text>
            )}
      </Found>
    </Section>
  );
}
