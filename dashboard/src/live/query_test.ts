import { deepStrictEqual } from "node:assert";
import { RequestError } from "@/supabase.ts";
import { queryClient } from "./query.ts";

Deno.test("only a server that does not answer is asked again, and not for ever", () => {
  const retry = queryClient.getDefaultOptions().queries!.retry as (count: number, error: Error) => boolean;
  const tries = (error: Error) => [0, 1, 2, 3].map((count) => retry(count, error));
  deepStrictEqual(tries(RequestError.offline()), [true, true, false, false]);
  for (const error of [RequestError.unknown("no such run"), new RequestError("no", "OM400"), new Error("a bug")]) {
    deepStrictEqual(tries(error), [false, false, false, false]);
  }
});
