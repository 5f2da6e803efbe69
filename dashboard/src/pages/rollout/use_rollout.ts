/** What the pages of a rollout read of it. */
import {
  readMedia,
  readOutline,
  readOverrides,
  readRewards,
  readRollout,
  readValidations,
  type Rollout,
} from "@/api/rollout.ts";
import { useAccess } from "@/auth/session.tsx";
import { queryClient, useLive } from "@/live/query.ts";

export function useRollout(id: string) {
  const { person } = useAccess();
  const isMember = !!person?.role;
  const key = ["rollout", id, "row"];
  // Which run it belongs to is known once it was read; until then any change may be one of it.
  const known = queryClient.getQueryData<Rollout>(key);
  const runId = known ? known.training_run_id : "*";
  const rollout = useLive(runId, key, () => readRollout(id, isMember));
  const outline = useLive(runId, ["rollout", id, "outline"], (signal) => readOutline(id, signal));
  return { rollout, outline, runId };
}

export function useJudgement(id: string, runId: string | null) {
  const rewards = useLive(runId, ["rollout", id, "rewards"], (signal) => readRewards(id, signal));
  const validations = useLive(runId, ["rollout", id, "validations"], () => readValidations(id));
  const overrides = useLive(runId, ["rollout", id, "overrides"], () => readOverrides(id));
  const media = useLive(runId, ["rollout", id, "media"], () => readMedia(id));
  return { rewards, validations, overrides, media };
}
