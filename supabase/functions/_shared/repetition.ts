/** The id under which a request can be repeated without doing it twice. */
import { uuid5 } from "./ids.ts";
import type { Call } from "./serve.ts";

const NAMESPACE = "1f7e2a50-6d0b-4f6c-9d0e-3a5b8c7d9e21";

/** The id in the request, or one that follows from its header Idempotency-Key and its caller; null without either. */
export async function repetitionId(call: Pick<Call<unknown>, "request" | "caller">, given?: string | null) {
  if (given) return given;
  const key = call.request.headers.get("idempotency-key");
  return key ? await uuid5(NAMESPACE, `${call.caller.userId ?? call.caller.kind}:${key}`) : null;
}
