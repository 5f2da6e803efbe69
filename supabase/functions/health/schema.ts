/** What health answers. */
import { v } from "../_shared/deps.ts";
import type { Operation } from "../_shared/operation.ts";

export const output = v.strictObject({
  status: v.picklist(["ok", "unavailable"]),
  version: v.string(),
  database: v.picklist(["ok", "unreachable"]),
});

export const operation = {
  method: "GET",
  auth: [],
  summary: "Is the project up?",
  description: "Answers without a key; 503 when the database does not answer.",
  input: null,
  output,
  errors: [],
  example: { input: {}, output: { status: "ok", version: "0.1.0", database: "ok" } },
} satisfies Operation;
