import { deepStrictEqual, strictEqual } from "node:assert";
import { phaseOf, statusText } from "./phase.ts";

const at = (status: string, status_message: string | null = null, cancelling = false) => ({
  status,
  status_message,
  cancelling,
});

Deno.test("a rollout goes from waiting over provisioning and running to its end", () => {
  deepStrictEqual(
    ["pending", "provisioning", "running", "success", "timeout", "a status of later"].map((status) =>
      phaseOf(at(status))
    ),
    ["waiting", "provisioning", "running", "ended", "ended", "ended"],
  );
});

Deno.test("verifying is known only where the worker says so while it runs", () => {
  strictEqual(phaseOf(at("running", "verifying the answer")), "verifying");
  strictEqual(phaseOf(at("running", "the worker is verifying")), "running");
  strictEqual(phaseOf(at("pending", "verifying")), "waiting");
});

Deno.test("who waits for a rollout to stop is told so, until it has", () => {
  strictEqual(statusText(at("running", null, true)), "cancelling");
  strictEqual(statusText(at("cancelled", null, true)), "cancelled");
});
