/** All training jobs, and the orchestrators that launch and follow them. */
import { Alert, Button, Code, Group, MultiSelect, Progress, Stack, Table, Text } from "@mantine/core";
import { IconAlertTriangle } from "@tabler/icons-react";
import { Link } from "react-router";
import {
  isActiveJob,
  isRetryableJob,
  type JobsOverview,
  type ListedJob,
  nextJobPage,
  type Orchestrator,
  readJobs,
  retryJob,
  stopJobs,
} from "@/api/jobs.ts";
import type { Place } from "@/api/paging.ts";
import { useAccess, useMayChange } from "@/auth/session.tsx";
import { SignInLink } from "@/auth/sign_in_link.tsx";
import { plain } from "@/components/agent_text.tsx";
import { useJobsOverview } from "@/components/jobs/no_orchestrator.tsx";
import { Ago, Figure, PageHead, Section } from "@/components/page.tsx";
import { Elapsed } from "@/components/queue/elapsed.tsx";
import { ScrollTable } from "@/components/scroll_table.tsx";
import { Empty, Failed, Found, Loading } from "@/components/states.tsx";
import { StatusBadge } from "@/components/status.tsx";
import { JOB_STATUSES } from "@/database.ts";
import { useLivePages } from "@/live/query.ts";
import { number } from "@/view/format.ts";
import { useView } from "@/view/url_state.ts";
import { ActionButton, cost } from "../run/job/bar.tsx";

export default function JobsPage() {
  const { person } = useAccess();
  return (
    <>
      <PageHead title="Jobs" />
      {person ? <Overview /> : (
        <Empty title="Jobs are for members">
          <SignInLink /> to see them.
        </Empty>
      )}
    </>
  );
}

function Overview() {
  const query = useJobsOverview();
  return (
    <Found query={query} what="Reading the jobs">
      {(overview) => (
        <Stack gap="md">
          <Figures overview={overview} />
          <Unserved overview={overview} />
          <Jobs />
          <Orchestrators orchestrators={overview.orchestrators} />
        </Stack>
      )}
    </Found>
  );
}

function Figures({ overview: { counts, orchestrators } }: { overview: JobsOverview }) {
  const alive = orchestrators.filter(({ state, is_silent }) => state === "active" && !is_silent);
  const silent = orchestrators.filter(({ is_silent }) => is_silent).length;
  return (
    <div className="om-tiles">
      <Figure label="Waiting" value={number(counts.pending ?? 0)} />
      <Figure label="Being launched" value={number((counts.launching ?? 0) + (counts.queued ?? 0))} />
      <Figure label="Running" value={number(counts.running ?? 0)} />
      <Figure
        label="Orchestrators"
        value={number(alive.length)}
        hint={silent > 0 ? `${silent} silent` : "alive"}
        tone={silent > 0 ? "bad" : alive.length === 0 && (counts.pending ?? 0) > 0 ? "warn" : undefined}
      />
    </div>
  );
}

function Unserved({ overview: { unserved } }: { overview: JobsOverview }) {
  if (unserved.length === 0) return null;
  return (
    <Alert
      color="orange"
      icon={<IconAlertTriangle aria-hidden />}
      role="status"
      title="Some jobs wait for an orchestrator that can launch them"
    >
      {unserved.map(({ backend, jobs }) => (
        <div key={backend}>
          {number(jobs)} {jobs === 1 ? "needs" : "need"} <Code>{backend}</Code>
        </div>
      ))}
      Start one on a machine that has the Supabase settings: <Code>openmanus-rl orchestrator</Code>
    </Alert>
  );
}

function Jobs() {
  const [view, change] = useView({ status: [] as string[] });
  const pages = useLivePages<ListedJob[], Place>(
    "*",
    ["jobs", view.status],
    (from, signal) => readJobs(view.status, from, signal),
    nextJobPage,
    { keep: true },
  );
  const jobs = pages.data?.pages.flat();
  return (
    <Section
      title="Jobs"
      aside={
        <MultiSelect
          size="xs"
          w={260}
          aria-label="Status"
          placeholder={view.status.length ? undefined : "Any status"}
          data={[...JOB_STATUSES]}
          value={view.status}
          onChange={(status) => change({ status })}
          clearable
          clearButtonProps={{ "aria-label": "Any status" }}
        />
      }
    >
      {!jobs && (pages.error
        ? <Failed error={pages.error} retry={() => void pages.refetch()} />
        : <Loading what="Reading the jobs" />)}
      {jobs?.length === 0 && (
        <Empty title={view.status.length ? "No job has such a status" : "No job yet"}>
          {view.status.length
            ? (
              <Button
                variant="default"
                size="xs"
                onClick={() => change({ status: [] })}
              >
                Show all jobs
              </Button>
            )
            : (
              <>
                Make <Link to="/runs/new">a new run</Link>{" "}
                and launch it; an orchestrator trains it on its machine, or on one that SkyPilot finds.
              </>
            )}
        </Empty>
      )}
      {jobs && jobs.length > 0 && (
        <>
          <ScrollTable label="Jobs" minWidth={820}>
            <Table.Thead>
              <Table.Tr>
                <Table.Th>Run</Table.Th>
                <Table.Th>Status</Table.Th>
                <Table.Th>Where</Table.Th>
                <Table.Th>Attempt</Table.Th>
                <Table.Th ta="right">Cost</Table.Th>
                <Table.Th ta="right">Took</Table.Th>
                <Table.Th>Asked for</Table.Th>
                <Table.Th />
              </Table.Tr>
            </Table.Thead>
            <Table.Tbody>{jobs.map((job) => <Row key={job.id} job={job} />)}</Table.Tbody>
          </ScrollTable>
          {pages.hasNextPage && (
            <Group justify="center" mt="md">
              <Button
                variant="default"
                loading={pages.isFetchingNextPage}
                onClick={() => void pages.fetchNextPage()}
              >
                Show more
              </Button>
            </Group>
          )}
        </>
      )}
    </Section>
  );
}

function Row({ job }: { job: ListedJob }) {
  const name = plain(job.name ?? "a run that was deleted");
  const isStopping = isActiveJob(job.status) && job.stop_requested_at !== null;
  return (
    <Table.Tr>
      <Table.Td maw={260}>
        {job.training_run_id
          ? (
            <Text
              component={Link}
              to={`/runs/${job.training_run_id}?tab=job`}
              size="sm"
              fw={550}
              truncate
              title={name}
              display="block"
            >
              {name}
            </Text>
          )
          : <Text size="sm" truncate title="Its run was deleted">{name}</Text>}
      </Table.Td>
      <Table.Td maw={260}>
        <StatusBadge status={isStopping ? "cancelling" : job.status} />
        {job.status_message && (
          <Text size="xs" c="dimmed" lineClamp={2} title={plain(job.status_message)}>{plain(job.status_message)}</Text>
        )}
      </Table.Td>
      <Table.Td maw={180}>
        <Text size="sm">{job.backend}</Text>
        {job.host && <Text size="xs" c="dimmed" truncate title={plain(job.host)}>{plain(job.host)}</Text>}
      </Table.Td>
      <Table.Td style={{ whiteSpace: "nowrap" }}>
        {number(job.attempt)}
        {job.restarts > 0 && <Text size="xs" c="dimmed">{job.restarts} of {job.max_restarts} restarts</Text>}
      </Table.Td>
      <Table.Td ta="right">{cost(job) ?? "—"}</Table.Td>
      <Table.Td ta="right" style={{ whiteSpace: "nowrap" }}>
        <Elapsed from={job.started_at} to={job.finished_at} />
      </Table.Td>
      <Table.Td style={{ whiteSpace: "nowrap" }}>
        <Ago time={job.created_at} />
      </Table.Td>
      <Table.Td ta="right">
        <JobAction job={job} />
      </Table.Td>
    </Table.Tr>
  );
}

function JobAction({ job }: { job: ListedJob }) {
  const whyNot = useMayChange(job.owner_id) ? null : "Only its owner, or an admin, may do this.";
  if (isActiveJob(job.status) && job.stop_requested_at === null) {
    return (
      <ActionButton
        label="Stop"
        whyNot={whyNot}
        act={() => stopJobs([job.id])}
        done="It ends after its current step."
      />
    );
  }
  if (!isRetryableJob(job.status) || !job.training_run_id) return null;
  return (
    <ActionButton
      label="Try again"
      whyNot={whyNot}
      act={() => retryJob(job.id)}
      done="The job waits for an orchestrator."
    />
  );
}

function Orchestrators({ orchestrators }: { orchestrators: Orchestrator[] }) {
  return (
    <Section title="Orchestrators">
      {orchestrators.length === 0
        ? (
          <Text size="sm" c="dimmed">
            None runs, and none did in the last day. Start one on the machine that trains, or that has SkyPilot:{" "}
            <Code>openmanus-rl orchestrator</Code>
          </Text>
        )
        : (
          <ScrollTable label="Orchestrators" minWidth={680} maxHeight={420}>
            <Table.Thead>
              <Table.Tr>
                <Table.Th>Orchestrator</Table.Th>
                <Table.Th>Health</Table.Th>
                <Table.Th>Follows</Table.Th>
                <Table.Th>Backends</Table.Th>
                <Table.Th>Last heard</Table.Th>
                <Table.Th>Started</Table.Th>
              </Table.Tr>
            </Table.Thead>
            <Table.Tbody>
              {orchestrators.map((each) => <OrchestratorRow key={each.id} orchestrator={each} />)}
            </Table.Tbody>
          </ScrollTable>
        )}
    </Section>
  );
}

function OrchestratorRow({ orchestrator }: { orchestrator: Orchestrator }) {
  const { name, host, pid, version, state, is_silent, held, max_jobs, backends } = orchestrator;
  const place = [host, pid !== null && `pid ${pid}`, version && `version ${version}`].filter(Boolean).join(" · ");
  return (
    <Table.Tr>
      <Table.Td maw={280}>
        <Text size="sm" truncate title={plain(name)}>{plain(name)}</Text>
        <Text size="xs" c="dimmed" truncate title={plain(place)}>{plain(place)}</Text>
      </Table.Td>
      <Table.Td maw={220}>
        <StatusBadge status={is_silent ? "silent" : state} />
        {is_silent && held > 0 && <Text size="xs" c="dimmed">Its jobs go on; the next orchestrator follows them.</Text>}
      </Table.Td>
      <Table.Td>
        <Group gap={8} wrap="nowrap">
          <Progress w={56} size="sm" value={100 * held / max_jobs} aria-label={`${held} of ${max_jobs} jobs`} />
          <Text size="sm" style={{ whiteSpace: "nowrap" }}>{number(held)} of {number(max_jobs)}</Text>
        </Group>
      </Table.Td>
      <Table.Td>{plain(backends.join(", "))}</Table.Td>
      <Table.Td style={{ whiteSpace: "nowrap" }}>
        <Ago time={orchestrator.heartbeat_at} />
      </Table.Td>
      <Table.Td style={{ whiteSpace: "nowrap" }}>
        <Ago time={orchestrator.started_at} />
      </Table.Td>
    </Table.Tr>
  );
}
