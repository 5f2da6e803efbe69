/** Ending what a client asked of the database when the client has gone. */
import postgres from "postgres";
import { clientHasGone, currentClient } from "./client.ts";
import { type DatabaseAddress, dialling } from "./dial.ts";

const IDLE_SECONDS = 30;
const PAUSE_MS = 100;

/**
 * Cancels statements over a connection of its own: the pool's may all be taken by what is to be cancelled.
 *
 * Deno does not notice that a client went whose body came after its headers had been read: then the time limit of the
 * statement ends it.
 */
export class Canceller {
  readonly #sql: postgres.Sql;

  constructor(address: DatabaseAddress) {
    const connection = { application_name: "openmanus-rl gateway" };
    const options = { max: 1, idle_timeout: IDLE_SECONDS, connection, onnotice: () => {} };
    this.#sql = postgres(address.url, { ...options, ...dialling(address) });
  }

  /** Run statements on the connection of a server process, known once one was sent, until they end or their client goes. */
  async whileWanted<T>(pid: () => number | undefined, run: () => Promise<T>): Promise<T> {
    const gone = currentClient.getStore()?.gone;
    if (!gone) return await run();
    if (gone.aborted) throw clientHasGone();
    let isRunning = true;
    let cancelling: Promise<void> | undefined;
    // Again and again: a cancellation that comes between two statements, or before the first, ends nothing.
    const cancel = () => (cancelling = this.#cancelWhile(pid, () => isRunning));
    gone.addEventListener("abort", cancel);
    try {
      return await run();
    } finally {
      isRunning = false;
      gone.removeEventListener("abort", cancel);
      // Before the connection is another's, whose statement would be cancelled instead.
      await cancelling;
    }
  }

  async #cancelWhile(pid: () => number | undefined, isRunning: () => boolean): Promise<void> {
    while (isRunning()) {
      const known = pid();
      if (known !== undefined) await this.#sql`select pg_cancel_backend(${known})`.catch(() => {});
      if (isRunning()) await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
    }
  }

  async close(): Promise<void> {
    await this.#sql.end({ timeout: 1 });
  }
}
