/** The frames of a run: the steps that have one, and some of them with addresses to read them by. */
import { rpc, supabase } from "@/supabase.ts";
import type { Results } from "./contract.ts";

export type FrameSteps = Results["frame_steps"];

export interface Frame {
  step: number;
  width: number | null;
  height: number | null;
  recordedAt: string;
  /** Null where the file is not there: it may still be on its way. */
  address: string | null;
}

const SIGNED_SECONDS = 3600;

export function frameSteps(runId: string, signal: AbortSignal): Promise<FrameSteps> {
  return rpc("frame_steps", { training_run_id: runId }, signal);
}

/** The frames at these steps, all in one bucket, whose addresses are signed for a while. */
export async function readFrames(runId: string, steps: number[], signal: AbortSignal): Promise<Frame[]> {
  const found = await rpc("run_frames", { training_run_id: runId, steps }, signal);
  const addresses = new Map<string, string>();
  for (const bucket of new Set(found.map((frame) => frame.bucket))) {
    const paths = found.filter((frame) => frame.bucket === bucket).map((frame) => frame.path);
    const { data } = await supabase().storage.from(bucket).createSignedUrls([...new Set(paths)], SIGNED_SECONDS);
    for (const { path, signedUrl } of data ?? []) if (path && signedUrl) addresses.set(`${bucket}/${path}`, signedUrl);
  }
  return found.map(({ step, width, height, bucket, path, created_at }) => ({
    step,
    width,
    height,
    recordedAt: created_at,
    address: addresses.get(`${bucket}/${path}`) ?? null,
  }));
}
