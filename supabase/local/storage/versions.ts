/**
 * Which versions no object has: those that are being written, and those that were replaced or deleted.
 *
 * A version is announced before it is written, and its announcement goes in the transaction that gives it to an object.
 * What an object loses is noted by a trigger, in the transaction in which it loses it. Whatever happens in between, a
 * crash or a store that cannot be reached, the sweep knows what to remove, and removes nothing else.
 */
import type { GatewayConnection } from "../database.ts";
import { isUnavailable } from "../errors.ts";
import type { Sql } from "./context.ts";
import { StorageError } from "./errors.ts";
import { isVersion, type ObjectStore } from "./store.ts";

export const VERSIONS_SQL = `
create table if not exists storage.unreferenced_versions (
  version text primary key,
  -- Whether it may be removed: one that is being written may still be given to an object.
  is_discarded boolean not null,
  -- Whether it is whole: one that no object had may have been written in part.
  had_object boolean not null,
  collect_after timestamptz not null
);
alter table storage.unreferenced_versions enable row level security;
create table if not exists storage.content_location (
  is_only boolean primary key default true check (is_only),
  location text not null
);
alter table storage.content_location enable row level security;
create or replace function storage.discard_version() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  insert into storage.unreferenced_versions (version, is_discarded, had_object, collect_after)
  values (old.version, true, true, now()) on conflict (version) do nothing;
  return null;
end $$;
revoke execute on function storage.discard_version() from public;
create or replace trigger discard_version_when_deleted after delete on storage.objects
  for each row when (old.version is not null) execute function storage.discard_version();
create or replace trigger discard_version_when_replaced after update of version on storage.objects
  for each row when (old.version is not null and old.version is distinct from new.version)
  execute function storage.discard_version();
`;

/** How long an upload that says nothing is taken to be alive. */
const ANNOUNCED_MINUTES = 60;
const RENEW_MS = 10 * 60_000;
/** How soon what could not be removed is tried again. */
const RETRY_MINUTES = 5;
const SWEPT_AT_ONCE = 500;
const SWEEP_INTERVAL_MS = 60_000;
/** Held by a backup of contents that are elsewhere: nothing is removed meanwhile. The number is in `backup.py` too. */
const BACKUP_LOCK = "7301956220413";

export class Versions {
  constructor(readonly connection: GatewayConnection, readonly store: ObjectStore) {}

  get #sql() {
    return this.connection.driver;
  }

  /** A new version, which the sweep removes unless an object gets it. */
  async announce(): Promise<string> {
    const version = crypto.randomUUID();
    await this.#sql`
      insert into storage.unreferenced_versions (version, is_discarded, had_object, collect_after)
      values (${version}, false, false, now() + make_interval(mins => ${ANNOUNCED_MINUTES}))`;
    return version;
  }

  /** A content that keeps its announcement alive for as long as it arrives. */
  async *announced(version: string, content: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
    let renewedAt = Date.now();
    for await (const chunk of content) {
      if (Date.now() - renewedAt > RENEW_MS) {
        renewedAt = Date.now();
        await this.#sql`
          update storage.unreferenced_versions set collect_after = now() + make_interval(mins => ${ANNOUNCED_MINUTES})
          where version = ${version} and not is_discarded`;
      }
      yield chunk;
    }
  }

  /** Let an object have an announced version, in the transaction that names it. */
  async take(sql: Sql, version: string): Promise<void> {
    const [{ is_taken, location }] = await sql<{ is_taken: boolean; location: string }[]>`
      with taken as (
        delete from storage.unreferenced_versions where version = ${version} and not is_discarded returning version
      )
      select exists (select from taken) as is_taken, (select location from storage.content_location) as location`;
    if (location !== this.store.location) {
      // Another gateway found no objects, and was told to keep them elsewhere.
      throw new StorageError(503, "StoreMoved", `Files are kept in ${location} now; restart the gateway with that`);
    }
    if (!is_taken) {
      throw new StorageError(503, "UploadAbandoned", "The upload was silent for too long and was removed; try again");
    }
  }

  /**
   * Remove those of these versions that no object has; what fails now, the sweep does later.
   *
   * Whoever asks may not know whether its transaction was committed. Marking a version waits for a transaction that is
   * taking it: either that fails, or the version is no longer here to be marked.
   */
  async remove(versions: (string | null)[]): Promise<void> {
    const wanted = versions.filter((version) => version !== null);
    if (wanted.length === 0) return;
    try {
      const marked = await this.#sql<{ version: string; had_object: boolean }[]>`
        update storage.unreferenced_versions set is_discarded = true
        where version = any(${wanted}) and (select pg_try_advisory_xact_lock_shared(${BACKUP_LOCK}::bigint))
        returning version, had_object`;
      for (const isWhole of [true, false]) {
        const removed = marked.filter((row) => row.had_object === isWhole).map((row) => row.version);
        if (removed.length === 0) continue;
        await this.store.remove(removed.filter(isVersion), !isWhole);
        await this.#sql`delete from storage.unreferenced_versions where version = any(${removed})`;
      }
    } catch (error) {
      console.error(`${wanted.length} versions are removed later:`, (error as Error).message);
    }
  }

  /** Remove what is due; returns how much that was. */
  async sweep(): Promise<number> {
    const due = await this.#sql<{ version: string }[]>`
      update storage.unreferenced_versions
      set is_discarded = true, collect_after = now() + make_interval(mins => ${RETRY_MINUTES})
      where version in (
        select version from storage.unreferenced_versions
        where collect_after <= now() and (select pg_try_advisory_xact_lock_shared(${BACKUP_LOCK}::bigint))
        order by collect_after limit ${SWEPT_AT_ONCE} for update skip locked
      ) returning version`;
    await this.remove(due.map((row) => row.version));
    return due.length;
  }

  /** Sweep now and then, until the gateway stops. */
  keepSwept(stopping: AbortSignal): void {
    const sweep = async () => {
      try {
        while (await this.sweep() === SWEPT_AT_ONCE && !stopping.aborted);
      } catch (error) {
        if (!stopping.aborted && !isUnavailable(error)) console.error("sweep failed:", error);
      }
      if (!stopping.aborted) timer = setTimeout(sweep, SWEEP_INTERVAL_MS);
    };
    let timer = setTimeout(sweep, 0);
    stopping.addEventListener("abort", () => clearTimeout(timer));
  }
}

/** Refuse to serve a database whose contents are in another place than the settings say. */
export async function requireLocation({ driver: sql }: GatewayConnection, { location }: ObjectStore): Promise<void> {
  await sql.begin(async (transaction) => {
    await transaction`lock table storage.content_location`;
    const [{ recorded, is_used }] = await transaction<{ recorded: string | null; is_used: boolean }[]>`
      select (select location from storage.content_location) as recorded, exists (select from storage.objects) as is_used`;
    const present = is_used ? recorded ?? "folder" : location;
    if (present !== location) throw new Error(misplaced(present, location));
    await transaction`
      insert into storage.content_location (location) values (${location})
      on conflict (is_only) do update set location = excluded.location`;
  });
}

function misplaced(present: string, wanted: string): string {
  const name = (location: string) => location === "folder" ? "a folder of the machine that serves it" : location;
  const fix = present === "folder" ? "unset OPENMANUS_RL_STORAGE" : `set OPENMANUS_RL_STORAGE=${present}`;
  return `OPENMANUS_RL_STORAGE: the files of this database are in ${name(present)}, not in ${name(wanted)}; ${fix}, ` +
    "or move them: `openmanus-rl backup`, and `restore` into a new OPENMANUS_RL_HOME";
}
