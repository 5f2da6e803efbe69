/** The rollouts of one request, while they wait, run and end. */
import { Button, Group, Progress, Stack, Text } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { Link } from "react-router";
import { cancelRollouts, idsOfRequest, isUnfinished, type Watched, watchRequest } from "@/api/queue.ts";
import { useAccess } from "@/auth/session.tsx";
import { Ago, Figure, PageHead } from "@/components/page.tsx";
import { RolloutCards } from "@/components/queue/card.tsx";
import { SelectionBar, useChosen } from "@/components/queue/selection.tsx";
import { WriteButton } from "@/components/queue/write_button.tsx";
import { Empty, Found } from "@/components/states.tsx";
import { refresher, useLive } from "@/live/query.ts";
import { More } from "@/pages/queue/more.tsx";
import { number, percent, share } from "@/view/format.ts";
import { useView } from "@/view/url_state.ts";
import { inOrder, totalsOf } from "./totals.ts";

const LISTED = 60;
const MOST_LISTED = 1_000;

export default function WatchPage() {
  const [view] = useView({ at: null as string | null });
  const { person } = useAccess();
  if (!person || view.at === null || Number.isNaN(Date.parse(view.at))) {
    return (
      <>
        <PageHead title="Rollouts" crumbs={[{ label: "Queue", to: "/queue" }]} />
        <Empty title={person ? "This address names no request" : "The queue is for members"}>
          {person ? <Link to="/queue">See the queue</Link> : <Link to="/sign-in">Sign in</Link>}
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
              aside={<Aside at={at} unfinished={totals.unfinished} />}
            >
              <Text size="sm" c="dimmed">
                Requested <Ago time={at} />
              </Text>
            </PageHead>
            <Stack>
              <Totals counts={counts} />
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

function Aside({ at, unfinished }: { at: string; unfinished: number }) {
  const cancel = useMutation<number, Error>({
    mutationFn: async () => {
      const ids = await idsOfRequest(at, ["pending", "provisioning", "running"]);
      if (ids.length > 0) await cancelRollouts(ids);
      return ids.length;
    },
    onSuccess: (count) => {
      refresher.everything();
      notifications.show({ message: `${number(count)} cancelled. What runs is stopped by its worker within seconds.` });
    },
    onError: (error) => notifications.show({ color: "red", title: "Could not cancel", message: error.message }),
  });
  return (
    <>
      <Button
        component={Link}
        to={`/rollouts?${new URLSearchParams({ from: at, to: at })}`}
        variant="default"
        size="xs"
      >
        As a list
      </Button>
      {unfinished > 0 && (
        <WriteButton
          size="xs"
          variant="default"
          loading={cancel.isPending}
          onClick={() => cancel.mutate()}
        >
          Cancel the rest
        </WriteButton>
      )}
    </>
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
};

function Totals({ counts }: { counts: Watched["counts"] }) {
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
      <Group gap="md">
        {known.map(([status, count]) => (
          <Text key={status} size="xs" component="span" c="dimmed">
            {!isUnfinished(status) || status !== "pending"
              ? <span aria-hidden style={{ color: COLORS[status] }}>■</span>
              : null} {status} {number(count)}
          </Text>
        ))}
      </Group>
    </Stack>
  );
}
