/** How the newest rollouts fare, at a glance: what usually goes wrong in RL shows here first. */
import { Tooltip } from "@mantine/core";
import { IconAlertTriangle } from "@tabler/icons-react";
import { readHealth, type Run } from "@/api/run.ts";
import { useLive } from "@/live/query.ts";
import { useTraining } from "./nothing_yet.tsx";
import classes from "./page.module.css";
import { vitalsOf } from "./vitals.ts";

export function Health({ run }: { run: Run }) {
  const query = useLive(run.id, ["run health", run.id], (signal) => readHealth(run.id, signal));
  const training = useTraining(run.id);
  const vitals = query.data ? vitalsOf(query.data, training.data?.isEpisodic ?? false) : [];
  // Its place is kept while it is read, so that what is below does not jump.
  if ((query.isPending || training.isPending) && run.rollout_count > 0) return <div className={classes.vitalsToCome} />;
  if (!vitals.length) return null;
  return (
    <ul className={classes.strip} aria-label="Health of the newest rollouts">
      {vitals.map(({ label, value, tone, help }) => (
        <li key={label}>
          {/* Below, always: above it are the run's name and how far it is. */}
          <Tooltip label={help} multiline w={300} position="bottom" middlewares={{ flip: false, shift: true }}>
            <div
              className={classes.vital}
              data-tone={tone}
              tabIndex={0}
              role="note"
              aria-label={`${label}: ${value}. ${help}`}
            >
              <span>{label}</span>
              <b>{tone && <IconAlertTriangle size={14} aria-hidden />}{value}</b>
            </div>
          </Tooltip>
        </li>
      ))}
    </ul>
  );
}
