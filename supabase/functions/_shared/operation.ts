/** What a function is for, what it takes and answers, and who may call it: the source of its entry in openapi.json. */
import type { Access } from "./auth.ts";
import type { Schema } from "./input.ts";

export interface Operation {
  method: "GET" | "POST";
  /** Which credentials may call; a function that needs no key has none. */
  auth: readonly Access[];
  summary: string;
  description: string;
  /** The JSON body of a POST, the parameters of a GET. */
  input: Schema | null;
  output: Schema;
  /** Which errors it answers with, beside those that every function may. */
  errors: readonly number[];
  example: { input: Record<string, unknown>; output: Record<string, unknown> };
}

/** Ids for examples. */
export const EXAMPLE = {
  runId: "0192f0c1-7a10-7c3e-9d55-2b8c4f1e6a01",
  rolloutId: "0192f0c1-7a11-7b02-8f6a-91d3c0e4b702",
  turnId: "0192f0c1-7a12-7d48-a1c9-5e7f3b2d8c03",
};
