/** The one Supabase client, and the one place where its errors become ours. */
import { createClient, type SupabaseClient } from "@supabase/supabase-js";
import type { Database } from "../../supabase/functions/_shared/database.types.ts";
import type { Config } from "./config.ts";

export type { Database };
export type Row<Name extends keyof Database["public"]["Tables"]> = Database["public"]["Tables"][Name]["Row"];

let client: SupabaseClient<Database>;

export function connect(config: Config): void {
  client = createClient<Database>(config.supabaseUrl, config.publishableKey, {
    // What fails is asked again by who asked, who also says so.
    db: { retry: false },
    // Anybody can make a link: who is signed in already must not be signed out, or in as another, by opening one.
    auth: { storageKey: "openmanus-rl", detectSessionInUrl: false, persistSession: true, autoRefreshToken: true },
  });
}

export function supabase(): SupabaseClient<Database> {
  return client;
}

/** What went wrong, in words for the person in front of the page. */
export class RequestError extends Error {
  constructor(message: string, readonly code: string | null, readonly isOffline: boolean) {
    super(message);
  }

  get isUnknown(): boolean {
    return this.code === "OM404" || this.code === "PGRST116";
  }
}

interface Answer<T> {
  data: T;
  error: { message: string; code?: string } | null;
}

/** The data of an answer, or a RequestError that can be shown. */
export async function answered<T>(request: PromiseLike<Answer<T>>): Promise<NonNullable<T>> {
  const { data, error } = await request;
  if (error) {
    const isOffline = !error.code && /fetch|network|load failed/i.test(error.message);
    throw new RequestError(isOffline ? "The server does not answer." : error.message, error.code ?? null, isOffline);
  }
  return data as NonNullable<T>;
}

/** Call a database function that answers with one JSON value. */
export async function call<T>(name: string, args: Record<string, unknown> = {}, signal?: AbortSignal): Promise<T> {
  // deno-lint-ignore no-explicit-any
  const request = (client.rpc as any)(name, args);
  return await answered<T>(signal ? request.abortSignal(signal) : request) as T;
}
