/** A server for tests: every request of the real Supabase client comes here instead of the network. */
import { connect } from "@/supabase.ts";

export interface Asked {
  method: string;
  /** Without the address of the server. */
  path: string;
  query: URLSearchParams;
  body: unknown;
}

/** Answers requests, in any way, until it is put away. */
export class FakeServer {
  readonly asked: Asked[] = [];
  readonly #fetch = globalThis.fetch;

  constructor(answer: (asked: Asked) => Response | Promise<Response>) {
    globalThis.fetch = async (input, init) => {
      const request = new Request(input, init);
      const url = new URL(request.url);
      const text = await request.text();
      const asked = {
        method: request.method,
        path: url.pathname,
        query: url.searchParams,
        body: text ? JSON.parse(text) : null,
      };
      this.asked.push(asked);
      const response = await answer(asked);
      init?.signal?.throwIfAborted();
      return response;
    };
    connect({ supabaseUrl: "http://stack.test", publishableKey: "sb_publishable_test", embedded: true });
  }

  [Symbol.dispose](): void {
    globalThis.fetch = this.#fetch;
  }
}

export function rows(found: unknown[], count?: number): Response {
  const headers = count === undefined ? undefined : { "content-range": `0-${Math.max(0, found.length - 1)}/${count}` };
  return Response.json(found, { headers });
}

export function refusal(code: string, status: number, message = "refused"): Response {
  return Response.json({ code, message, details: null, hint: null }, { status });
}
