/** What launch-training takes and answers. */
import { v } from "../_shared/deps.ts";
import { fields, id, jsonObject, optional, text } from "../_shared/fields.ts";
import { EXAMPLE, type Operation } from "../_shared/operation.ts";

export const input = fields({
  runId: id("The training run."),
  config: optional(
    jsonObject(
      "Where and how: `backend` (`local` or `skypilot`), `accelerator`, `infra` or `cloud`, `use_spot`, `cpus`, " +
        "`memory`, `disk_size_gb`, `image`, `autostop_minutes`, `setup`, `package`, `extras`, `secrets`, `env`, " +
        "`metrics_interval`, `frame_interval`, `max_restarts`, `timeout_minutes`, `stop_grace_seconds`. Any other " +
        "field is refused.",
    ),
  ),
  jobId: optional(id("The job's id, made by the client: the request can then be repeated without harm.")),
});

export const output = fields({
  jobId: id("The job's id."),
  yaml: text("The task that SkyPilot is given, without the values of secrets."),
});

export const operation = {
  method: "POST",
  auth: ["secret", "user"],
  summary: "Launch a training run",
  description:
    "Asks for a job that trains a run; an orchestrator (`openmanus-rl orchestrator`) launches and follows it. Without " +
    "an accelerator or an infrastructure the job is a process of the orchestrator's machine, otherwise SkyPilot " +
    "launches it. A run has one job at a time, and a completed run none. Repeated with the same `jobId`, or the same " +
    "header Idempotency-Key, it changes nothing and answers the same.",
  input,
  output,
  errors: [400, 403, 404, 409, 413],
  example: {
    input: { runId: EXAMPLE.runId, config: { accelerator: "A10:1", metrics_interval: 50 } },
    output: { jobId: EXAMPLE.jobId, yaml: 'name: "omrl-0192f0c10d5b2e05-1"\nresources:\n  accelerators: "A10:1"\n' },
  },
} satisfies Operation;

export type Input = v.InferOutput<typeof input>;
export type Output = v.InferOutput<typeof output>;
