import type { ReactNode } from "react";
import { readTraining } from "@/api/training.ts";
import { Empty } from "@/components/states.tsx";
import { useLive } from "@/live/query.ts";

export function useTraining(runId: string) {
  return useLive(runId, ["training", runId], (signal) => readTraining(runId, signal));
}

interface Props {
  runId: string;
  title: string;
  /** When the training service brings it. */
  trained: string;
  /** How a program of one's own records it. */
  children: ReactNode;
}

/** What a part of a run says as long as it is empty. */
export function NothingYet({ runId, title, trained, children }: Props) {
  const training = useTraining(runId).data;
  return (
    <Empty title={title}>
      {training?.isEpisodic ? `${trained} What is not launched yet is launched by the button above.` : children}
    </Empty>
  );
}
