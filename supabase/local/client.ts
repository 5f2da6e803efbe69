/** Who is at the other end of the request being answered. */
import { AsyncLocalStorage } from "node:async_hooks";
import type { Claims } from "./database.ts";

export interface Client {
  address: string;
  /** Whether it runs on this machine and came without a proxy. */
  isLocal: boolean;
  /** Aborted when the client goes before it has its answer. */
  gone: AbortSignal;
  /** As whom it acted, once that is known. */
  caller?: Claims;
}

export const currentClient = new AsyncLocalStorage<Client | undefined>();

/** The client's address; what the gateway does by itself comes from nowhere. */
export function clientAddress(): string {
  return currentClient.getStore()?.address ?? "";
}

/** Do something that outlives the request that began it, and is for others too. */
export function forEverybody<T>(work: () => T): T {
  return currentClient.run(undefined, work);
}

/** In the words of Postgres itself, for whoever writes a log: there is nobody left to be answered. */
export function clientHasGone(): Error {
  return Object.assign(new Error("the client has gone"), { code: "57014" });
}
