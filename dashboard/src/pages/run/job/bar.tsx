/** The job of a run at a glance, and what can be done: launch, stop, try again, clone. */
import { Anchor, Button, Text } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { useMutation } from "@tanstack/react-query";
import { Link } from "react-router";
import { isActiveJob, isRetryableJob, type Job, readJobsOfRun, retryJob, stopRun } from "@/api/jobs.ts";
import type { Run } from "@/api/run.ts";
import { sweepOfRun } from "@/api/sweeps.ts";
import type { Training } from "@/api/training.ts";
import { useAccess, useMayChange } from "@/auth/session.tsx";
import { plain } from "@/components/agent_text.tsx";
import { LaunchDialog } from "@/components/jobs/launch.tsx";
import { Elapsed } from "@/components/queue/elapsed.tsx";
import { WriteButton } from "@/components/queue/write_button.tsx";
import { StatusBadge } from "@/components/status.tsx";
import { refresher, useLive } from "@/live/query.ts";
import { useView } from "@/view/url_state.ts";
import { useTraining } from "../nothing_yet.tsx";
import classes from "./job.module.css";

export function useJobs(runId: string) {
  return useLive(runId, ["jobs of run", runId], (signal) => readJobsOfRun(runId, signal));
}

const NOT_YOURS = "Only its owner, or an admin, may do this.";

export function JobBar({ run }: { run: Run }) {
  const jobs = useJobs(run.id).data;
  const training = useTraining(run.id).data;
  const { person } = useAccess();
  const [view, change] = useView({ launch: false as boolean });
  if (!jobs || !training || (!training.isTrainable && jobs.length === 0)) return null;
  const job = jobs[0];
  return (
    <div className={classes.bar} role="group" aria-label="Job">
      {job ? <Facts job={job} /> : <Text size="sm" c="dimmed">{waits(run)}</Text>}
      <Trial runId={run.id} />
      <Actions {...{ run, job, training }} launch={() => change({ launch: true })} />
      {view.launch && person && (
        <LaunchDialog
          runId={run.id}
          before={job?.config}
          onClose={() => change({ launch: false })}
        />
      )}
    </div>
  );
}

function waits(run: Run): string {
  return run.status === "pending" ? "Not launched yet." : "Trained without a job.";
}

export function cost(job: Pick<Job, "cost_usd">): string | null {
  return job.cost_usd === null ? null : `$${Number(job.cost_usd).toFixed(2)}`;
}

function Facts({ job }: { job: Job }) {
  const isStopping = isActiveJob(job.status) && job.stop_requested_at !== null;
  const facts = [
    job.status === "pending" && !isStopping && "waits for an orchestrator that has a place for it",
    job.backend === "local" ? job.host && `on ${job.host}` : job.external_id ?? "with SkyPilot",
    job.attempt > 1 && `attempt ${job.attempt}`,
    job.restarts > 0 && `${job.restarts} of ${job.max_restarts} restarts`,
    job.exit_code !== null && `exit code ${job.exit_code}`,
    cost(job),
  ].filter(Boolean);
  return (
    <>
      <Text size="sm" fw={550}>
        <Link to="?tab=job">Job</Link>
      </Text>
      <StatusBadge status={isStopping ? "cancelling" : job.status} />
      {job.started_at && (
        <Text size="sm" span>
          <Elapsed from={job.started_at} to={job.finished_at} />
        </Text>
      )}
      <Text size="sm" c="dimmed">{plain(facts.join(" · "))}</Text>
      {job.status_message && (
        <Text size="sm" c="dimmed" lineClamp={2} title={plain(job.status_message)}>{plain(job.status_message)}</Text>
      )}
    </>
  );
}

function Trial({ runId }: { runId: string }) {
  const found = useLive(runId, ["sweep of run", runId], (signal) => sweepOfRun(runId, signal)).data;
  if (!found) return null;
  return <Anchor component={Link} to={`/sweeps/${found.sweep_id}`} size="sm">Trial {found.trial} of a sweep</Anchor>;
}

interface ActionsProps {
  run: Run;
  job: Job | undefined;
  training: Training;
  launch: () => void;
}

function Actions({ run, job, training, launch }: ActionsProps) {
  const mine = useMayChange(run.owner_id) ? null : NOT_YOURS;
  const isActive = job !== undefined && isActiveJob(job.status);
  const isStopping = training.stopRequestedAt !== null || Boolean(job?.stop_requested_at && isActive);
  const canStop = isActive || run.shown_status === "running";
  const canLaunch = !isActive && training.isTrainable && !["running", "completed"].includes(run.shown_status);
  return (
    <span style={{ display: "inline-flex", flexWrap: "wrap", gap: 8, marginLeft: "auto" }}>
      {canStop && (
        <ActionButton
          label={isStopping ? "Stopping…" : "Stop"}
          whyNot={mine ?? (isStopping ? "It was asked to stop: it ends after its current step." : null)}
          act={() => stopRun(run.id)}
          done="It ends after its current step, with a checkpoint."
        />
      )}
      {job && isRetryableJob(job.status) && run.shown_status !== "completed" && (
        <ActionButton
          label="Try again"
          whyNot={mine}
          act={() => retryJob(job.id)}
          done="The job waits for an orchestrator."
        />
      )}
      {canLaunch && <WriteButton size="compact-sm" whyNot={mine} onClick={launch}>Launch</WriteButton>}
      {training.isTrainable && (
        <>
          <Button component={Link} to={`/sweeps/new?run=${run.id}`} size="compact-sm" variant="default">Sweep</Button>
          <Button component={Link} to={`/runs/new?from=${run.id}`} size="compact-sm" variant="default">Clone</Button>
        </>
      )}
    </span>
  );
}

interface ActionProps {
  label: string;
  whyNot: string | null;
  act: () => Promise<unknown>;
  done: string;
}

export function ActionButton({ label, whyNot, act, done }: ActionProps) {
  const action = useMutation<unknown, Error>({
    mutationFn: act,
    onSuccess: () => {
      refresher.everything();
      notifications.show({ message: done });
    },
    onError: (error) => notifications.show({ color: "red", title: "That did not work", message: error.message }),
  });
  return (
    <WriteButton
      size="compact-sm"
      variant="default"
      whyNot={whyNot}
      loading={action.isPending}
      onClick={() => action.mutate()}
    >
      {label}
    </WriteButton>
  );
}
