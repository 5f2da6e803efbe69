/** A rollout of the queue while one watches it: where it is on its way, and what came of it. */
import { Anchor, Checkbox, Text } from "@mantine/core";
import { memo, useState } from "react";
import { Link } from "react-router";
import { beginningOf } from "@/api/answer.ts";
import type { QueuedRollout } from "@/api/queue.ts";
import { plain } from "@/components/agent_text.tsx";
import { colorOf, StatusBadge } from "@/components/status.tsx";
import { number, shortId } from "@/view/format.ts";
import { RolloutActions } from "./actions.tsx";
import styles from "./card.module.css";
import { Elapsed } from "./elapsed.tsx";
import { FileDialog } from "./files.tsx";
import { phaseOf, PHASES, statusText } from "./phase.ts";

interface Props {
  rollout: QueuedRollout;
  isSelected?: boolean;
  onSelect?: (id: string) => void;
  /** Of one task: what is asked need not be told. */
  isOfOneTask?: boolean;
}

export function RolloutCards({ rollouts, selected, onSelect, label, isOfOneTask }: {
  rollouts: QueuedRollout[];
  selected?: ReadonlySet<string>;
  onSelect?: (id: string) => void;
  label: string;
  isOfOneTask?: boolean;
}) {
  return (
    <div className={styles.cards} role="list" aria-label={label}>
      {rollouts.map((rollout) => (
        <div key={rollout.id} role="listitem" style={{ display: "grid", minWidth: 0 }}>
          <RolloutCard
            rollout={rollout}
            isSelected={selected?.has(rollout.id)}
            onSelect={onSelect}
            isOfOneTask={isOfOneTask}
          />
        </div>
      ))}
    </div>
  );
}

/** The answer of the database is another object each time, mostly with the same in it. */
function isSame(before: Props, after: Props): boolean {
  return before.isSelected === after.isSelected && before.onSelect === after.onSelect &&
    JSON.stringify(before.rollout) === JSON.stringify(after.rollout);
}

export const RolloutCard = memo(function RolloutCard(props: Props) {
  const { rollout, isSelected = false, onSelect, isOfOneTask } = props;
  return (
    <article
      className={styles.card}
      data-selected={isSelected || undefined}
      aria-label={`Rollout ${shortId(rollout.id)}`}
    >
      <div className={styles.head}>
        {onSelect && (
          <Checkbox
            size="xs"
            checked={isSelected}
            onChange={() => onSelect(rollout.id)}
            aria-label={`Select rollout ${shortId(rollout.id)}`}
          />
        )}
        <StatusBadge status={statusText(rollout)} />
        <Text span size="xs" c="dimmed" ml="auto">
          <Since rollout={rollout} />
        </Text>
      </div>
      <PhaseBar rollout={rollout} />
      <Anchor component={Link} to={`/rollouts/${rollout.id}`} size="sm" lineClamp={2} dir="auto" ta="left">
        {isOfOneTask ? `Rollout ${shortId(rollout.id)}` : plain(rollout.task_description)}
      </Anchor>
      <Facts rollout={rollout} />
      <Outcome rollout={rollout} />
      <div className={styles.foot}>
        <Files rollout={rollout} />
        <span style={{ marginLeft: "auto", display: "flex", gap: 6 }}>
          <RolloutActions rollouts={[rollout]} size="compact-xs" only={["cancel", "retry"]} />
        </span>
      </div>
    </article>
  );
}, isSame);

function Since({ rollout: r }: { rollout: QueuedRollout }) {
  const phase = phaseOf(r);
  if (phase === "waiting") {
    return (
      <>
        waits for <Elapsed from={r.created_at} />
      </>
    );
  }
  if (phase === "ended") {
    return r.started_at
      ? (
        <>
          took <Elapsed from={r.started_at} to={r.finished_at} />
        </>
      )
      : null;
  }
  return (
    <>
      for <Elapsed from={r.claimed_at ?? r.started_at} />
    </>
  );
}

export function PhaseBar({ rollout }: { rollout: QueuedRollout }) {
  const phase = phaseOf(rollout);
  const place = PHASES.indexOf(phase);
  return (
    <div
      className={styles.phases}
      role="img"
      aria-label={`Phase: ${phase}`}
      title={`Phase: ${phase}`}
      data-color={phase === "ended" ? colorOf(rollout.status) : undefined}
    >
      {PHASES.map((name, index) => (
        <span
          key={name}
          data-done={index < place || phase === "ended" || undefined}
          data-now={(index === place && phase !== "ended") || undefined}
        />
      ))}
    </div>
  );
}

function Facts({ rollout: r }: { rollout: QueuedRollout }) {
  const facts = [
    plain(r.agent) + (r.model ? ` · ${plain(r.model)}` : ""),
    plain(r.environment) !== "none" && plain(r.environment),
    (r.turns > 0 || r.started_at) && `${number(r.turns)} ${r.turns === 1 ? "turn" : "turns"}`,
    r.total_reward !== null && `reward ${number(r.total_reward)}`,
    r.attempt > 1 && `attempt ${r.attempt} of ${r.max_attempts}`,
    r.priority !== 0 && `priority ${r.priority}`,
    phaseOf(r) !== "waiting" && r.worker_name && `worker ${plain(r.worker_name)}`,
  ];
  return (
    <div className={styles.facts}>
      {facts.filter((fact) => fact !== false && fact !== null).map((fact) => (
        <span key={fact} title={fact || undefined}>{fact}</span>
      ))}
    </div>
  );
}

function Outcome({ rollout }: { rollout: QueuedRollout }) {
  const { error, result, status_message } = rollout;
  // While it runs, the message is its phase.
  const why = phaseOf(rollout) === "verifying" ? null : status_message ?? error;
  return (
    <>
      {result !== null && (
        <div className={styles.outcome} title="The answer">
          <span className="om-agent-text" data-agent-text>{plain(beginningOf(result))}</span>
        </div>
      )}
      {why !== null && (
        <div className={styles.outcome} data-kind={error === null ? "message" : "error"} title={plain(why)}>
          <Text span size="xs" lineClamp={3}>{plain(why)}</Text>
        </div>
      )}
    </>
  );
}

function Files({ rollout }: { rollout: QueuedRollout }) {
  const [open, setOpen] = useState<"video" | "logs" | null>(null);
  const files = [["video", "Video", rollout.video_path], ["logs", "Logs", rollout.logs_path]] as const;
  const path = open && files.find(([kind]) => kind === open)![2];
  return (
    <>
      {files.map(([kind, label, there]) =>
        there && (
          <Anchor key={kind} component="button" type="button" size="xs" onClick={() => setOpen(kind)}>{label}</Anchor>
        )
      )}
      {open && path && (
        <FileDialog
          kind={open}
          path={path}
          title={`${open === "video" ? "Video" : "Logs of the environment"} of rollout ${shortId(rollout.id)}`}
          onClose={() => setOpen(null)}
        />
      )}
    </>
  );
}
