/** The page's live line: a channel of Supabase Realtime, open while the tab is visible. */
import type { Config } from "@/config.ts";
import { supabase } from "@/supabase.ts";
import { type Channel, LiveLine } from "./line.ts";
import { queryClient, refresher } from "./query.ts";

function openChannel(changed: (run: string | null) => void, heard: (isSubscribed: boolean) => void): Channel {
  let isClosed = false;
  const channel = supabase().channel(`activity-${crypto.randomUUID()}`);
  channel.on<{ training_run_id: string | null }>(
    "postgres_changes",
    { event: "*", schema: "public", table: "activity" },
    (change) => changed("training_run_id" in change.new ? change.new.training_run_id : null),
  );
  // Who listens must be known first: a channel that was joined as nobody hears of public runs only.
  supabase().realtime.setAuth().then(
    () => isClosed || channel.subscribe((status) => heard(status === "SUBSCRIBED")),
    () => heard(false),
  );
  return {
    close() {
      isClosed = true;
      void supabase().removeChannel(channel);
    },
  };
}

/** Whether the server tells of a change again when no more have come for a while; Supabase Realtime does not. */
let isFollowedUp = false;

export const line = new LiveLine({
  isHidden: () => document.hidden,
  open: openChannel,
  changed: (run) => refresher.changed(run, { isFollowedUp }),
  everything: () => refresher.everything(),
  anyway: () => refresher.anyway(),
  rested() {
    refresher.rest();
    void queryClient.cancelQueries();
  },
});

/** Listen while the tab is visible, and catch up when it becomes visible again. */
export function watch({ embedded }: Config): void {
  isFollowedUp = embedded;
  document.addEventListener("visibilitychange", () => (document.hidden ? line.rest() : line.open()));
  addEventListener("online", () => line.open());
  line.open();
}
