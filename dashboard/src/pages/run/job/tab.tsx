/** The jobs of a run: the latest with its log and task, and the earlier ones. */
import { Code, Select, Stack, Text } from "@mantine/core";
import type { Job } from "@/api/jobs.ts";
import type { Run } from "@/api/run.ts";
import { useAccess } from "@/auth/session.tsx";
import { plain } from "@/components/agent_text.tsx";
import { Task } from "@/components/jobs/launch.tsx";
import { Ago, Figure, Section } from "@/components/page.tsx";
import { Elapsed } from "@/components/queue/elapsed.tsx";
import { Empty, Found } from "@/components/states.tsx";
import { StatusBadge } from "@/components/status.tsx";
import { dateTime, shortId, UNKNOWN } from "@/view/format.ts";
import { useView } from "@/view/url_state.ts";
import { cost, useJobs } from "./bar.tsx";
import { JobLogs } from "./logs.tsx";

export function JobTab({ run }: { run: Run }) {
  const query = useJobs(run.id);
  return (
    <Found query={query} what="Reading the jobs">
      {(jobs) =>
        jobs.length > 0 ? <Jobs jobs={jobs} /> : (
          <Empty title="This run has no job">
            A job trains a run on this or another machine: press <b>Launch</b>{" "}
            above where the run’s configuration is one that the training service reads, or make a run that is:{" "}
            <Code>openmanus-rl train --env CartPole-v1 --algo ppo</Code>
          </Empty>
        )}
    </Found>
  );
}

function Jobs({ jobs }: { jobs: Job[] }) {
  const { person } = useAccess();
  const [view, change] = useView({ job: null as string | null });
  const job = jobs.find(({ id }) => id === view.job) ?? jobs[0]!;
  return (
    <Stack gap="md">
      {jobs.length > 1 && (
        <Select
          size="xs"
          w={320}
          aria-label="Job"
          allowDeselect={false}
          data={jobs.map(({ id, created_at, status }) => ({
            value: id,
            label: `${dateTime(created_at)} · ${status} · ${shortId(id)}`,
          }))}
          value={job.id}
          onChange={(id) => change({ job: id === jobs[0]!.id ? null : id })}
        />
      )}
      <Figures job={job} />
      {job.status_message && <Text size="sm">{plain(job.status_message)}</Text>}
      <Section title="Log">
        {person ? <JobLogs key={job.id} job={job} /> : <Text size="sm" c="dimmed">Logs are for members.</Text>}
      </Section>
      <Section title="Task">
        <Task yaml={job.yaml} isLocal={job.backend === "local"} />
      </Section>
    </Stack>
  );
}

function Figures({ job }: { job: Job }) {
  return (
    <div className="om-tiles">
      <Figure label="Status" value={<StatusBadge status={job.status} />} hint={<Ago time={job.created_at} />} />
      <Figure label="Time so far" value={<Elapsed from={job.started_at} to={job.finished_at} />} />
      <Figure
        label="Cost so far"
        value={cost(job) ?? UNKNOWN}
        hint={job.backend === "local" && "local jobs have none"}
      />
      <Figure label="Attempt" value={job.attempt} hint={`${job.restarts} of ${job.max_restarts} restarts`} />
      <Figure
        label={job.backend === "local" ? "Machine" : "Name at SkyPilot"}
        value={
          <Text size="sm" className="om-mono" style={{ overflowWrap: "anywhere" }}>
            {plain((job.backend === "local" ? job.host : job.external_id) ?? UNKNOWN)}
          </Text>
        }
        hint={job.backend}
      />
    </div>
  );
}
