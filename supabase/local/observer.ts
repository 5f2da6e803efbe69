/** What the gateway counts of its own work: `/metrics` for Prometheus, and who is connected for `openmanus-rl status`. */
import prometheus from "prom-client";
import { type Client, currentClient } from "./client.ts";
import { METHODS } from "./cors.ts";
import type { Claims } from "./database.ts";
import { beginRequest } from "./pace.ts";

const SILENT_MS = 5 * 60_000;
const MOST_CALLERS = 1000;
const SECONDS = [0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];
const APIS = /^\/(rest|auth|storage|functions|realtime)\/v1(?:\/|$)/;
/** Somebody who sent requests lately. */
export interface Caller {
  role: string;
  /** The member, or null for whoever has but a key of the project. */
  userId: string | null;
  keyId: string | null;
  address: string;
  /** What its program calls itself. */
  program: string;
  since: string;
  last: string;
  requests: number;
  receivedBytes: number;
}

export class Observer {
  readonly registry = new prometheus.Registry();
  readonly #callers = new Map<string, Caller>();
  readonly #seconds = new prometheus.Histogram({
    name: "openmanus_rl_request_seconds",
    help: "Time until a request is answered, without what is streamed after its headers",
    labelNames: ["api", "method", "status"],
    buckets: SECONDS,
    registers: [this.registry],
  });
  readonly #received = new prometheus.Counter({
    name: "openmanus_rl_received_bytes_total",
    help: "Bytes of request bodies whose length was given",
    labelNames: ["api"],
    registers: [this.registry],
  });
  readonly #underWay = new prometheus.Gauge({
    name: "openmanus_rl_requests_under_way",
    help: "Requests that are being answered",
    labelNames: ["api"],
    registers: [this.registry],
  });

  /** Answer a request, and count it. */
  async watch(request: Request, answer: (request: Request) => Promise<Response>): Promise<Response> {
    const began = performance.now();
    const { pathname } = new URL(request.url);
    const api = APIS.exec(pathname)?.[1] ?? "dashboard";
    const length = Number(request.headers.get("content-length") ?? 0);
    this.#underWay.inc({ api });
    const ended = api === "rest" ? beginRequest(pathname) : () => {};
    let status = "500";
    try {
      const response = await answer(request);
      status = String(response.status);
      return response;
    } finally {
      this.#underWay.dec({ api });
      ended();
      // Whoever asks chooses the method: what is none would be a series of its own each time.
      const method = METHODS.has(request.method) ? request.method : "other";
      this.#seconds.observe({ api, method, status }, (performance.now() - began) / 1000);
      if (length > 0) this.#received.inc({ api }, length);
      const client = currentClient.getStore();
      if (client?.caller) this.#note(client, client.caller, programOf(request.headers), length);
    }
  }

  /** Who sent requests within the last minutes, the latest first. */
  callers(): Caller[] {
    this.#forget(Date.now() - SILENT_MS);
    return [...this.#callers.values()].sort((a, b) => b.last.localeCompare(a.last));
  }

  #note({ address }: Client, { role, sub, key_id }: Claims, program: string, bytes: number): void {
    const name = JSON.stringify([role, sub, key_id, address, program]);
    const now = new Date().toISOString();
    const userId = typeof sub === "string" ? sub : null;
    const keyId = typeof key_id === "string" ? key_id : null;
    const caller = this.#callers.get(name) ??
      { role, userId, keyId, address, program, since: now, last: now, requests: 0, receivedBytes: 0 };
    caller.last = now;
    caller.requests++;
    caller.receivedBytes += bytes;
    // Put behind all others, so that the first of them is the one that was silent for longest.
    this.#callers.delete(name);
    this.#callers.set(name, caller);
    if (this.#callers.size > MOST_CALLERS) this.#callers.delete(this.#callers.keys().next().value!);
  }

  #forget(before: number): void {
    for (const [name, { last }] of this.#callers) {
      if (Date.parse(last) >= before) return;
      this.#callers.delete(name);
    }
  }
}

/** The program's own name for itself; what anybody may write is cut to what a line of a table holds. */
function programOf(headers: Headers): string {
  const given = headers.get("x-client-info") ?? headers.get("user-agent") ?? "";
  if (/^Mozilla\//.test(headers.get("user-agent") ?? "")) return "browser";
  return given.replaceAll(/[^\x20-\x7e]/g, "?").slice(0, 60) || "unknown";
}
