/** Rollouts, one or a page of them. */
import { v } from "../_shared/deps.ts";
import { FunctionError, unwrap } from "../_shared/errors.ts";
import { decodePlace, encodePlace, pageSize, type Place } from "../_shared/paging.ts";
import { given } from "../_shared/record.ts";
import type { Call } from "../_shared/serve.ts";
import type { get, list } from "./schema.ts";

const VIDEO_BUCKET = "media";
const VIDEO_SECONDS = 3600;
/** All but what may be as long as an agent likes: results, metadata and requests are read one rollout at a time. */
const COLUMNS =
  "id, training_run_id, group_id, task_id, source, environment, task_description, status, status_message, " +
  "total_reward, step_count, error, agent, model, seed, input_tokens, output_tokens, cost_usd, video_path, logs_path, " +
  "priority, worker_id, attempt, max_attempts, attempt_of, cancel_requested_at, created_at, started_at, finished_at";

type Row = Place & Record<string, unknown>;

export async function listRollouts({ client, input }: Call<v.InferOutput<typeof list.input>>) {
  const { limit, after, status, attempt_of, ...equal } = input;
  const size = pageSize(limit);
  const place = decodePlace(after);
  let query = client.from("rollouts").select(COLUMNS).is("rewound_at", null).match(given(equal));
  query = attempt_of ? query.eq("attempt_of", attempt_of) : query.is("attempt_of", null);
  if (status) query = query.in("status", status);
  if (place) {
    const { created_at, id } = place;
    // The first condition bounds the scan of the index.
    query = query.lte("created_at", created_at).or(`created_at.lt."${created_at}",id.gt.${id}`);
  }
  const ordered = query.order("created_at", { ascending: false }).order("id").limit(size + 1);
  const rows = unwrap(await ordered) as unknown as Row[];
  return { rollouts: rows.slice(0, size), next: rows.length > size ? encodePlace(rows[size - 1]) : null };
}

export async function getRollout({ client, input, request }: Call<v.InferOutput<typeof get.input>>) {
  const rollout = unwrap(await client.from("rollouts").select("*").eq("id", input.id).maybeSingle());
  if (!rollout) {
    const message = `rollout ${input.id}: there is no such rollout, or you may not see it`;
    throw new FunctionError(404, "not_found", message, { field: "id" });
  }
  const { task_id, video_path } = rollout;
  const validations = client.from("validations").select("*").eq("rollout_id", input.id).order("validator_name").order(
    "id",
  );
  return {
    rollout,
    validations: unwrap(await validations),
    task: task_id && unwrap(await client.from("tasks").select("*").eq("id", task_id).maybeSingle()),
    video_url: video_path && await videoUrl(client, video_path, request),
  };
}

/** Where the video can be loaded; null where it is not in storage (yet). */
async function videoUrl(client: Call<unknown>["client"], path: string, request: Request): Promise<string | null> {
  const { data } = await client.storage.from(VIDEO_BUCKET).createSignedUrl(path, VIDEO_SECONDS);
  if (!data) return null;
  const url = new URL(data.signedUrl);
  if (url.hostname !== "127.0.0.1") return url.href;
  // The embedded stack knows itself by its loopback address; its clients may be elsewhere.
  const asked = new URL(request.url);
  url.host = asked.host;
  url.protocol = request.headers.get("x-forwarded-proto") ?? asked.protocol;
  return url.href;
}
