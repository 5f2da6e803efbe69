/** Who did what, the latest first; for admins. */
import { Anchor, Code, Group, Select, Table, Text } from "@mantine/core";
import { Link } from "react-router";
import { type AuditEntry, type LogFilters, nextLogPage, readLog, readMembers } from "@/api/members.ts";
import type { Place } from "@/api/paging.ts";
import { useAccess } from "@/auth/session.tsx";
import { SignInLink } from "@/auth/sign_in_link.tsx";
import { plain } from "@/components/agent_text.tsx";
import { Ago, PageHead } from "@/components/page.tsx";
import { ScrollTable } from "@/components/scroll_table.tsx";
import { Empty, FoundPages } from "@/components/states.tsx";
import { useLive, useLivePages } from "@/live/query.ts";
import { dateTime, shortId } from "@/view/format.ts";
import { useView } from "@/view/url_state.ts";
import { nameOf } from "./table.tsx";

const AREAS = {
  member: "Members",
  invitation: "Invitations",
  key: "Keys",
  link: "Sign-in links",
  sign_in: "Sign-ins",
  run: "Runs",
  rollout: "Rollouts",
  verdict: "Verdicts",
  evaluation: "Evaluations",
  job: "Jobs",
  sweep: "Sweeps",
  worker: "Workers",
  task: "Tasks",
  environment: "Environments",
  record: "The whole record",
};

/** Pages of subjects that may still be there. */
const PAGES: Record<string, string> = {
  training_runs: "/runs",
  rollouts: "/rollouts",
  sweeps: "/sweeps",
  tasks: "/tasks",
  environments: "/environments",
};

const DEFAULTS = { actor: "", area: "" };

export default function LogPage() {
  const { person } = useAccess();
  return (
    <>
      <PageHead title="Who did what" crumbs={[{ label: "Members", to: "/members" }]}>
        <Text size="sm" c="dimmed">The audit log. It is written by the database itself, and nobody can change it.</Text>
      </PageHead>
      {person?.role === "admin" ? <Log /> : (
        <Empty title="The log is for admins">
          {person ? "Ask one of them." : <SignInLink />}
        </Empty>
      )}
    </>
  );
}

function Log() {
  const [view, setView] = useView(DEFAULTS);
  const members = useLive(null, ["members"], readMembers).data ?? [];
  const filters: LogFilters = view;
  const pages = useLivePages<AuditEntry[], Place>(
    "*",
    ["audit", filters],
    (from, signal) => readLog(filters, from, signal),
    nextLogPage,
    { keep: true },
  );
  return (
    <>
      <Group gap="sm" mb="sm" align="flex-end">
        <Select
          size="xs"
          label="Who"
          placeholder="Everybody"
          clearable
          searchable
          data={members.map((member) => ({ value: member.user_id, label: plain(nameOf(member)) }))}
          value={view.actor || null}
          onChange={(actor) => setView({ actor: actor ?? "" })}
        />
        <Select
          size="xs"
          label="About"
          placeholder="Everything"
          clearable
          data={Object.entries(AREAS).map(([value, label]) => ({ value, label }))}
          value={view.area || null}
          onChange={(area) => setView({ area: area ?? "" })}
        />
      </Group>
      <FoundPages query={pages} what="Reading the log">{(entries) => <Entries entries={entries} />}</FoundPages>
    </>
  );
}

function Entries({ entries }: { entries: AuditEntry[] }) {
  if (entries.length === 0) return <Empty title="Nothing">Nothing of this kind was done.</Empty>;
  return (
    <ScrollTable label="Log" minWidth={680}>
      <Table.Thead>
        <Table.Tr>
          <Table.Th>When</Table.Th>
          <Table.Th>Who</Table.Th>
          <Table.Th>What</Table.Th>
          <Table.Th>To what</Table.Th>
          <Table.Th>Details</Table.Th>
        </Table.Tr>
      </Table.Thead>
      <Table.Tbody>{entries.map((entry) => <Row key={entry.id} entry={entry} />)}</Table.Tbody>
    </ScrollTable>
  );
}

function Row({ entry }: { entry: AuditEntry }) {
  return (
    <Table.Tr>
      <Table.Td style={{ whiteSpace: "nowrap" }} title={dateTime(entry.happened_at)}>
        <Ago time={entry.happened_at} />
      </Table.Td>
      <Table.Td maw={220}>
        <Text size="sm" truncate title={plain(whoDid(entry))}>{plain(whoDid(entry))}</Text>
        {entry.actor_kind === "key" && (
          <Text size="xs" c="dimmed" truncate>with the key {plain(entry.key_name ?? shortId(entry.key_id ?? ""))}</Text>
        )}
      </Table.Td>
      <Table.Td style={{ whiteSpace: "nowrap" }}>
        <Code>{entry.action}</Code>
      </Table.Td>
      <Table.Td maw={240}>
        <Subject entry={entry} />
      </Table.Td>
      <Table.Td maw={340}>
        <Text size="xs" c="dimmed" lineClamp={2} title={plain(detailsOf(entry))}>{plain(detailsOf(entry))}</Text>
      </Table.Td>
    </Table.Tr>
  );
}

function whoDid({ actor_kind, actor_name, actor_id }: AuditEntry): string {
  if (actor_kind === "secret_key") return "the secret key";
  if (actor_kind === "system") return "the system";
  return actor_name ?? shortId(actor_id ?? "");
}

function Subject({ entry: { subject, subject_id, subject_name, action, details } }: { entry: AuditEntry }) {
  if (!subject_id) return null;
  const count = (details as { count?: number } | null)?.count;
  const label = count
    ? `${count} ${subject}`
    : plain(subject_name ?? `${subject?.replaceAll("_", " ")} ${shortId(subject_id)}`);
  const page = subject && PAGES[subject];
  if (!page || count || action.endsWith(".deleted")) return <Text size="sm" truncate title={label}>{label}</Text>;
  return (
    <Anchor component={Link} to={`${page}/${subject_id}`} size="sm" truncate display="block" title={label}>
      {label}
    </Anchor>
  );
}

function detailsOf({ details }: AuditEntry): string {
  const told = Object.entries(details as Record<string, unknown>).filter(([name, value]) =>
    value !== null && name !== "ids" && name !== "count"
  );
  return told.map(([name, value]) => `${name.replaceAll("_", " ")}: ${detailOf(name, value)}`).join(" · ");
}

function detailOf(name: string, value: unknown): string {
  if (typeof value !== "string") return JSON.stringify(value);
  return name.endsWith("_at") ? dateTime(value) : value;
}
