/** What openapi answers. */
import { v } from "../_shared/deps.ts";
import type { Operation } from "../_shared/operation.ts";

export const operation = {
  method: "GET",
  auth: [],
  summary: "This document",
  description: "Answers without a key.",
  input: null,
  output: v.looseObject({ openapi: v.literal("3.1.1"), paths: v.looseObject({}) }),
  errors: [],
  example: { input: {}, output: { openapi: "3.1.1", paths: {} } },
} satisfies Operation;
