/** The rollouts of one request, while they wait, run and end. */
import { Anchor, Button, Group, Progress, Stack, Text } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { useMutation } from "@tanstack/react-query";
import { type ReactNode, useState } from "react";
import { Link } from "react-router";
import { cancelRollouts, idsOfRequest, retryRollouts, type Watched, watchRequest } from "@/api/queue.ts";
import { useAccess } from "@/auth/session.tsx";
import { SignInLink } from "@/auth/sign_in_link.tsx";
import { Ago, Figure, PageHead } from "@/components/page.tsx";
import { RolloutCards } from "@/components/queue/card.tsx";
import { SelectionBar, useChosen } from "@/components/queue/selection.tsx";
import { WriteButton } from "@/components/queue/write_button.tsx";
import { Empty, Found } from "@/components/states.tsx";
import type { RolloutStatus } from "@/database.ts";
import { refresher, useLive } from "@/live/query.ts";
import { More } from "@/pages/queue/more.tsx";
import { number, percent, share } from "@/view/format.ts";
import { useView } from "@/view/url_state.ts";
import { inOrder, totalsOf } from "./totals.ts";

const LISTED = 60;
const MOST_LISTED = 1_000;
/** Not the agent's fault: worth another try. */
const ERRORS: RolloutStatus[] = ["error", "interrupted"];

export default function WatchPage() {
  const [view] = useView({ at: null as string | null });
  const { person } = useAccess();
  if (!person || view.at === null || Number.isNaN(Date.parse(view.at))) {
    return (
      <>
        <PageHead title="Rollouts" crumbs={[{ label: "Queue", to: "/queue" }]} />
        <Empty title={person ? "This address names no request" : "The queue is for members"}>
          {person ? <Link to="/queue">See the queue</Link> : <SignInLink />}
        </Empty>
      </>
    );
  }
  return <Request key={view.at} at={view.at} />;
}

function Request({ at }: { at: string }) {
  const [listed, setListed] = useState(LISTED);
  const query = useLive("*", ["watch", at, listed], (signal) => watchRequest(at, listed, signal), { keep: true });
  const chosen = useChosen();
  return (
    <Found query={query} what="Reading the rollouts">
      {({ counts, rollouts }) => {
        const totals = totalsOf(counts);
        return (
          <>
            <PageHead
              title={`${number(totals.all)} ${totals.all === 1 ? "rollout" : "rollouts"} requested together`}
              crumbs={[{ label: "Queue", to: "/queue" }]}
              aside={<Aside at={at} counts={counts} />}
            >
              <Text size="sm" c="dimmed">
                Requested <Ago time={at} />
              </Text>
            </PageHead>
            <Stack>
              <Totals at={at} counts={counts} />
              {totals.all === 0 && (
                <Empty title="None is left">
                  They were deleted, or the address is incomplete. <Link to="/queue">See the queue</Link>
                </Empty>
              )}
              <RolloutCards
                label="Rollouts"
                rollouts={rollouts}
                selected={chosen.ids}
                onSelect={chosen.toggle}
              />
              <More
                shown={rollouts.length}
                total={totals.all}
                what="rollouts"
                more={listed < MOST_LISTED ? () => setListed(Math.min(MOST_LISTED, listed * 4)) : null}
              />
              <SelectionBar rollouts={rollouts} chosen={chosen} />
            </Stack>
          </>
        );
      }}
    </Found>
  );
}

/** The search that lists the rollouts of a request, where need be only those of a status. */
function listOf(at: string, status?: string): string {
  return `/rollouts?${new URLSearchParams({ from: at, to: at, ...(status && { status }) })}`;
}

function Aside({ at, counts }: { at: string; counts: Watched["counts"] }) {
  const errors = ERRORS.reduce((sum, status) => sum + (counts[status] ?? 0), 0);
  return (
    <>
      <Button component={Link} to={listOf(at)} variant="default" size="xs">As a list</Button>
      {errors > 0 && (
        <ForAll
          at={at}
          statuses={ERRORS}
          call={retryRollouts}
          done={(count) => `${number(count)} put back into the queue.`}
        >
          Retry {number(errors)} {errors === 1 ? "error" : "errors"}
        </ForAll>
      )}
      {totalsOf(counts).unfinished > 0 && (
        <ForAll
          at={at}
          statuses={["pending", "provisioning", "running"]}
          call={cancelRollouts}
          done={(count) => `${number(count)} cancelled. What runs is stopped by its worker within seconds.`}
        >
          Cancel the rest
        </ForAll>
      )}
    </>
  );
}

/** A button that does something with all rollouts of the request that have one of these statuses, listed or not. */
function ForAll({ at, statuses, call, done, children }: {
  at: string;
  statuses: RolloutStatus[];
  call: (ids: string[]) => Promise<unknown>;
  done: (count: number) => string;
  children: ReactNode;
}) {
  const run = useMutation<number, Error>({
    mutationFn: async () => {
      const ids = await idsOfRequest(at, statuses);
      if (ids.length > 0) await call(ids);
      return ids.length;
    },
    onSuccess: (count) => {
      refresher.everything();
      notifications.show({ message: done(count) });
    },
    onError: (error) => notifications.show({ color: "red", title: "That did not work", message: error.message }),
  });
  return (
    <WriteButton size="xs" variant="default" loading={run.isPending} onClick={() => run.mutate()}>
      {children}
    </WriteButton>
  );
}

const COLORS: Record<string, string> = {
  success: "#2f9e44",
  completed: "#74b816",
  failed: "#e03131",
  error: "#a61e4d",
  timeout: "#f2b705",
  truncated: "#f59f00",
  interrupted: "#f76707",
  cancelled: "#868e96",
  running: "#228be6",
  provisioning: "#74c0fc",
  pending: "#adb5bd",
};

function Totals({ at, counts }: { at: string; counts: Watched["counts"] }) {
  const { all, unfinished, verified, solved } = totalsOf(counts);
  if (all === 0) return null;
  const known = inOrder(counts);
  return (
    <Stack gap="xs">
      <div className="om-tiles">
        <Figure label="Waiting" value={number(counts.pending ?? 0)} />
        <Figure label="Running" value={number(unfinished - (counts.pending ?? 0))} />
        <Figure label="Ended" value={number(all - unfinished)} hint={`of ${number(all)}`} />
        <Figure
          label="Solved"
          value={percent(share(solved, verified), 0)}
          hint={verified ? `${number(solved)} of ${number(verified)} that were judged` : "none is judged yet"}
        />
      </div>
      <Progress.Root size="lg" aria-label="How many have which status">
        {known.filter(([status]) => status !== "pending").map(([status, count]) => (
          <Progress.Section
            key={status}
            value={100 * count / all}
            color={COLORS[status]}
            aria-label={`${status}: ${count}`}
          />
        ))}
      </Progress.Root>
      <Group gap="4px 16px">
        {known.map(([status, count]) => (
          <Anchor key={status} component={Link} to={listOf(at, status)} size="xs">
            <span aria-hidden style={{ color: COLORS[status] }}>■</span> {status} {number(count)}
          </Anchor>
        ))}
      </Group>
    </Stack>
  );
}
