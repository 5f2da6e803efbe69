/** A rollout of the queue: what was asked for, what it answered, its logs, and its other attempts. */
import { Alert, Text } from "@mantine/core";
import { type ReactNode, useState } from "react";
import { Link } from "react-router";
import { readAnswer, readAttempts, readWorkerName, type Rollout } from "@/api/rollout.ts";
import { useAccess } from "@/auth/session.tsx";
import { AgentText, plain } from "@/components/agent_text.tsx";
import { Ago, Section } from "@/components/page.tsx";
import { EnvironmentLogs } from "@/components/queue/files.tsx";
import { phaseOf } from "@/components/queue/phase.ts";
import { StatusBadge } from "@/components/status.tsx";
import { useLive } from "@/live/query.ts";
import { number, shortId } from "@/view/format.ts";

const LIMIT_WORDS: Record<string, string> = {
  max_steps: "steps",
  max_seconds: "seconds",
  max_tokens: "tokens",
  max_cost_usd: "USD",
};

/** The limits that were asked for, in words; what is no number is not one of them. */
export function limitsOf(request: Rollout["request"]): string | null {
  const limits = (request as { limits?: Record<string, unknown> } | null)?.limits ?? {};
  const told = Object.entries(LIMIT_WORDS).flatMap(([name, word]) => {
    const value = limits[name];
    return typeof value === "number" ? [`${number(value)} ${word}`] : [];
  });
  return told.length ? told.join(", ") : null;
}

export function tokensOf({ input_tokens, output_tokens }: Rollout): string | null {
  if (input_tokens === null && output_tokens === null) return null;
  return `${number(input_tokens ?? 0)} in, ${number(output_tokens ?? 0)} out`;
}

export function WorkerName({ id }: { id: string }) {
  const { person } = useAccess();
  const name = useLive("*", ["worker-name", id], () => readWorkerName(id), { enabled: person !== null }).data;
  return <Link to="/queue" title={id}>{plain(name ?? shortId(id))}</Link>;
}

/** When it was asked for, and the way to what was asked for with it. */
export function RequestLink({ at }: { at: string }) {
  return (
    <Link to={`/queue/watch?${new URLSearchParams({ at })}`} title="All that were requested with it">
      <Ago time={at} />
    </Link>
  );
}

/** What keeps a rollout that has not ended, and what to do about it. */
export function Progress({ rollout }: { rollout: Rollout }) {
  if (rollout.request === null) return null;
  const phase = phaseOf(rollout);
  const words: Partial<Record<typeof phase, ReactNode>> = {
    waiting: (
      <>
        It waits for a worker. <Link to="/queue">The queue</Link> says what is before it.
      </>
    ),
    provisioning: "A worker starts its environment.",
    verifying: "The agent has answered; the answer is being verified.",
  };
  if (rollout.cancel_requested_at !== null && phase !== "ended") {
    return <Alert color="orange" variant="light" p="xs" role="status">Its worker is stopping it.</Alert>;
  }
  if (words[phase] === undefined) return null;
  return <Alert color="blue" variant="light" p="xs" role="status">{words[phase]}</Alert>;
}

export function Result({ rollout, maxHeight = 260 }: { rollout: Rollout; maxHeight?: number }) {
  const answer = useLive(
    rollout.training_run_id,
    ["rollout", rollout.id, "answer", rollout.status],
    (signal) => readAnswer(rollout.id, signal),
  ).data;
  if (!answer) return null;
  return (
    <Section title="Answer">
      <AgentText
        // Another attempt has another answer.
        key={`${answer.chars ?? answer.sizeBytes} ${answer.text.slice(0, 100)}`}
        {...answer}
        label="answer"
        maxHeight={maxHeight}
      />
    </Section>
  );
}

/** Logs may be long, and are mostly not wanted: they are read when they are opened. */
export function Logs({ path }: { path: string }) {
  const [isOpen, setOpen] = useState(false);
  return (
    <Section title="Logs of the environment">
      <details onToggle={({ currentTarget }) => setOpen(currentTarget.open)}>
        <summary style={{ cursor: "pointer", fontSize: "0.875rem" }}>{isOpen ? "Hide" : "Show"}</summary>
        {isOpen && <EnvironmentLogs path={path} />}
      </details>
    </Section>
  );
}

export function AttemptOf({ rollout }: { rollout: Rollout }) {
  if (rollout.attempt_of === null) return null;
  return (
    <Alert color="gray" variant="light" p="xs" role="note">
      This is attempt {rollout.attempt} of{" "}
      <Link to={`/rollouts/${rollout.attempt_of}`}>rollout {shortId(rollout.attempt_of)}</Link>, set aside: it counts in
      no success rate.
    </Alert>
  );
}

/** Attempts that were set aside: a worker was lost, or someone tried again. */
export function EarlierAttempts({ rollout }: { rollout: Rollout }) {
  const attempts = useLive(
    rollout.training_run_id,
    ["rollout", rollout.id, "attempts"],
    () => readAttempts(rollout.id),
    { enabled: rollout.request !== null },
  ).data;
  if (!attempts?.length) return null;
  return (
    <Section title="Earlier attempts">
      {attempts.map((attempt) => (
        <Text key={attempt.id} size="sm" component="div" mb={4}>
          <Link to={`/rollouts/${attempt.id}`}>Attempt {attempt.attempt}</Link> <StatusBadge status={attempt.status} />
          {" "}
          <Text span size="xs" c="dimmed">
            {number(attempt.step_count ?? 0)} turns{attempt.status_message && `, ${plain(attempt.status_message)}`}
          </Text>
        </Text>
      ))}
    </Section>
  );
}
