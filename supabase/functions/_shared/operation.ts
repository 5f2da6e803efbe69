/** What a function is for, what it takes and answers, and who may call it: the source of its entry in openapi.json. */
import type { Access } from "./auth.ts";
import type { Schema } from "./input.ts";

export type Method = "GET" | "POST" | "DELETE";

export interface Operation {
  method: Method;
  /** The path below the function's own, such as `/{id}`; none unless told. What is in braces is a field of the input. */
  path?: string;
  /** Its name in the document; the function's own unless told. */
  name?: string;
  /** Which credentials may call; a function that needs no key has none. */
  auth: readonly Access[];
  summary: string;
  description: string;
  /** The JSON body of a POST, the parameters of other methods. */
  input: Schema | null;
  /** Where it takes other bodies than a JSON object: by media type. The input is then in the parameters. */
  bodies?: Record<string, { schema: Schema; example: unknown }>;
  output: Schema;
  /** What it answers with 202, where the work goes on afterwards. */
  accepted?: { description: string; output: Schema; example: Record<string, unknown> };
  /** Which errors it answers with, beside those that every function may. */
  errors: readonly number[];
  example: { input: Record<string, unknown>; output: Record<string, unknown> };
}

/** Ids for examples. */
export const EXAMPLE = {
  runId: "0192f0c1-7a10-7c3e-9d55-2b8c4f1e6a01",
  rolloutId: "0192f0c1-7a11-7b02-8f6a-91d3c0e4b702",
  turnId: "0192f0c1-7a12-7d48-a1c9-5e7f3b2d8c03",
  taskId: "0192f0c1-7a13-7a5e-b3d1-6c0f8e9a1d04",
  jobId: "0192f0c1-7a14-7e6b-92c4-3f7a0d5b2e05",
};
