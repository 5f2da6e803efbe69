import { deepStrictEqual } from "node:assert";
import { EMPTY_LAUNCH, jobConfigOf, launchFormOf } from "./launch_form.ts";

Deno.test("what is left empty is not asked for", () => {
  deepStrictEqual(jobConfigOf(EMPTY_LAUNCH), { backend: "local" });
});

Deno.test("a local launch asks for nothing of another machine", () => {
  const options = { accelerator: "A10:1", cpus: "4", max_restarts: "5" };
  deepStrictEqual(jobConfigOf({ ...EMPTY_LAUNCH, options, use_spot: true, secrets: "KEY" }), {
    backend: "local",
    max_restarts: 5,
  });
});

Deno.test("numbers are sent as numbers, and what is none as it is", () => {
  const form = { ...EMPTY_LAUNCH, options: { metrics_interval: "50", max_restarts: "many", frame_interval: "1e-400" } };
  deepStrictEqual(jobConfigOf(form), {
    backend: "local",
    max_restarts: "many",
    metrics_interval: 50,
    frame_interval: "1e-400",
  });
});

Deno.test("variables keep what follows the first equals sign", () => {
  deepStrictEqual(jobConfigOf({ ...EMPTY_LAUNCH, env: "A=b=c\n\n B =\n" }).env, { A: "b=c", B: "" });
});

Deno.test("a launch that is repeated asks for the same", () => {
  const config = {
    backend: "skypilot",
    max_restarts: 2,
    infra: "slurm/one",
    accelerator: "A10:1",
    cpus: "4+",
    disk_size_gb: 100,
    env: { A: "1" },
    use_spot: true,
    secrets: ["HF_TOKEN", "KEY"],
  };
  deepStrictEqual(jobConfigOf(launchFormOf(config)), config);
});
