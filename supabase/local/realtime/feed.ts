/**
 * Tells changes of published tables, from the write-ahead log, for as long as someone listens.
 *
 * A replication slot of the gateway's own connection holds them. It ends with that connection, so that a gateway that is
 * gone keeps no log from being removed; changes since then are missed, which every listener is told.
 */
import type postgres from "postgres";
import { forEverybody } from "../client.ts";
import { type Claims, type GatewayConnection, OWN_WORK } from "../database.ts";
import { isUnavailable } from "../errors.ts";
import { JoinRefused } from "./bindings.ts";
import { type Compared, comparison, type Followed, isFor, matchesPlainly } from "./following.ts";
import { type Change, Decoder, type Tuple } from "./pgoutput.ts";
import {
  PUBLICATION,
  publishedTables,
  qualified,
  quoted,
  reasonNotToFollow,
  type Table,
  type TableColumn,
} from "./tables.ts";

const INTERVAL_MS = 250;
const MOST_AT_ONCE = 5_000;
/** So many are held at once, however many a transaction has. */
const PIECE = 200;
/** A role that is unknown, or that may not use the schema, sees nothing. */
const SEES_NOTHING = new Set(["42501", "22023", "42704"]);
/** As on hosted projects: of a larger change only the short values are told. */
const MAX_CHANGE_BYTES = 1024 * 1024;
const SHORT_VALUE_BYTES = 64;

/** One caller's ear: told of changes that it may see. */
export interface FeedListener {
  /** Listeners with equal tokens are asked for once. */
  readonly token: string;
  readonly claims: Claims;
  readonly followed: Followed[];
  tell(change: Row): void;
  /** Changes were missed. */
  lose(reason: string): void;
}

type Row = Record<string, unknown>;

/** The changes of one table, as JSON. */
interface Batch {
  table: Table;
  changes: Change[];
  records: (Row | null)[];
  /** What is known of the rows as they were. */
  olds: (Row | null)[];
}

interface Seen {
  columns: Set<string>;
  rows: Set<number>;
}

export class ChangeFeed {
  readonly #listeners = new Set<FeedListener>();
  #session: postgres.ReservedSql | null = null;
  #pool: postgres.Sql | undefined;
  #slot = "";
  #decoder = new Decoder();
  #starting: Promise<void> | undefined;
  #looping = false;

  constructor(readonly connection: GatewayConnection) {}

  /** Listen from now on: what changes after this has resolved is told. */
  async add(listener: FeedListener): Promise<void> {
    // The last listener may be going: then the slot ends while this one waits.
    while (this.#session === null) {
      this.#starting ??= this.#start().finally(() => (this.#starting = undefined));
      await this.#starting;
    }
    this.#listeners.add(listener);
    if (!this.#looping) forEverybody(() => this.#loop());
  }

  remove(listener: FeedListener): void {
    this.#listeners.delete(listener);
  }

  async #start(): Promise<void> {
    if (this.#session) return;
    const driver = this.#pool = this.connection.driver;
    const reason = await reasonNotToFollow(driver);
    if (reason) throw new JoinRefused(reason);
    const session = await driver.reserve();
    try {
      this.#slot = `openmanus_rl_${crypto.randomUUID().replaceAll("-", "").slice(0, 16)}`;
      await session`select pg_create_logical_replication_slot(${this.#slot}, 'pgoutput', true)`;
    } catch (error) {
      session.release();
      if ((error as { code?: string }).code !== "53400") throw error;
      throw new JoinRefused("all replication slots of this Postgres are in use; raise max_replication_slots");
    }
    this.#decoder = new Decoder();
    this.#session = session;
  }

  async #loop(): Promise<void> {
    this.#looping = true;
    while (this.#listeners.size > 0) {
      try {
        const isMore = await this.#readAndTell();
        if (!isMore) await new Promise((resolve) => setTimeout(resolve, INTERVAL_MS));
      } catch (error) {
        console.error("changes can't be followed:", (error as Error).message);
        this.#lose(isUnavailable(error) ? "the database was away; changes may be missing" : "changes may be missing");
      }
    }
    this.#looping = false;
    await this.#stop();
  }

  async #stop(): Promise<void> {
    const session = this.#session;
    this.#session = null;
    if (!session) return;
    try {
      // Where the pool was left, the connection is gone and the slot with it; asked again, it would open another.
      if (this.connection.driver === this.#pool) {
        await session.unsafe("select pg_drop_replication_slot($1)", [this.#slot]);
      }
    } catch (error) {
      console.error("a replication slot was not dropped:", (error as Error).message);
    } finally {
      session.release();
    }
  }

  #lose(reason: string, listeners = [...this.#listeners]): void {
    for (const listener of listeners) this.#listeners.delete(listener);
    for (const listener of listeners) listener.lose(reason);
  }

  async #readAndTell(): Promise<boolean> {
    let count = 0;
    const pieces = this.#session!.unsafe(
      `select encode(data, 'base64') as data from pg_logical_slot_get_binary_changes(
         $1, null, ${MOST_AT_ONCE}, 'proto_version', '1', 'publication_names', $2)`,
      [this.#slot, PUBLICATION],
    ).cursor(PIECE);
    for await (const rows of pieces) {
      count += rows.length;
      const changes = rows.map(({ data }) => this.#decoder.read(Uint8Array.fromBase64(data))).filter((one) =>
        one !== null
      );
      const wanted = changes.filter((change) =>
        [...this.#listeners].some(({ followed }) => followed.some((binding) => isFor(binding, change)))
      );
      if (wanted.length > 0) await this.#tellAll(wanted);
    }
    return count >= MOST_AT_ONCE;
  }

  async #tellAll(changes: Change[]): Promise<void> {
    const batches: Batch[] = [];
    for (const group of Map.groupBy(changes, ({ relation }) => relation.id).values()) {
      const { schema, table: name } = group[0].relation;
      const [table] = await publishedTables(this.connection.driver, schema, name);
      if (!table || table.key.length === 0) continue; // Not published any more.
      const records = await this.#asRows(table, group.map(({ record }) => record));
      const olds = await this.#asRows(table, group.map(({ old }) => old));
      batches.push({ table, changes: group, records, olds });
    }
    const order = new Map(changes.map((change, i) => [change, i]));
    for (const listeners of Map.groupBy(this.#listeners, ({ token }) => token).values()) {
      try {
        await this.#tell(listeners, batches, order);
      } catch (error) {
        if (isUnavailable(error)) throw error;
        // What its own policies or filters fail at is its own loss, which it is told.
        console.error("changes can't be told:", (error as Error).message);
        this.#lose("changes can't be checked; changes may be missing", listeners);
      }
    }
  }

  /** Tell listeners with one token what it may see. */
  async #tell(listeners: FeedListener[], batches: Batch[], order: Map<Change, number>): Promise<void> {
    const told: [number, FeedListener, Row][] = [];
    for (const batch of batches) {
      const seen = await this.#seen(listeners[0].claims, batch);
      for (const listener of listeners) {
        for (const [i, payload] of await this.#payloads(listener, batch, seen)) {
          told.push([order.get(batch.changes[i])!, listener, payload]);
        }
      }
    }
    for (const [, listener, payload] of told.sort(([a], [b]) => a - b)) listener.tell(payload);
  }

  /** Tuples as JSON that Postgres writes, which knows every type. */
  async #asRows(table: Table, tuples: (Tuple | null)[]): Promise<(Row | null)[]> {
    if (tuples.every((tuple) => tuple === null)) return tuples.map(() => null);
    const { names, given } = readSql(table.columns, "$1");
    const chosen = names.map((name, i) => `${name} as ${quoted(table.columns[i].name)}`).join(", ");
    const rows = await this.connection.driver.unsafe(
      `select to_json(r)::text as record from (select ${chosen} from ${given} order by "i") r`,
      [asJson(table.columns, tuples)],
    );
    return rows.map(({ record }, i) => {
      const tuple = tuples[i];
      return tuple && Object.fromEntries(Object.entries(parseExactly(record)).filter(([name]) => tuple.has(name)));
    });
  }

  /** Which columns a caller may read, and which of the changed rows. */
  async #seen(claims: Claims, { table, changes }: Batch): Promise<Seen> {
    const name = qualified(table);
    const key = table.columns.filter(({ name }) => table.key.includes(name));
    const { names, given } = readSql(key, "$1");
    const same = names.map((value, i) => `t.${quoted(key[i].name)} = ${value}`).join(" and ");
    try {
      return await this.connection.asCaller(claims, OWN_WORK, async (sql) => {
        const columns = await sql.unsafe(
          `select a.attname as name from pg_catalog.pg_attribute a
           where a.attrelid = $1::text::regclass and a.attnum > 0 and not a.attisdropped
             and has_column_privilege(a.attrelid, a.attnum, 'select')`,
          [name],
        );
        const rows = columns.length === 0 ? [] : await sql.unsafe(
          `select "i"::int as i from ${given} where exists (select from ${name} t where ${same})`,
          [asJson(key, changes.map(({ record }) => record))],
        );
        return { columns: new Set(columns.map(({ name }) => name)), rows: new Set(rows.map(({ i }) => i - 1)) };
      });
    } catch (error) {
      if (!SEES_NOTHING.has((error as { code?: string }).code ?? "")) throw error;
      return { columns: new Set(), rows: new Set() };
    }
  }

  async #payloads(listener: FeedListener, batch: Batch, seen: Seen): Promise<[number, Row][]> {
    const bindings: Followed[][] = batch.changes.map(() => []);
    for (const binding of listener.followed) {
      const meant = [...batch.changes.keys()].filter((i) =>
        isFor(binding, batch.changes[i]) && (batch.changes[i].type === "DELETE" || seen.rows.has(i))
      );
      const isReadable = binding.compared.every(({ column }) =>
        seen.columns.has(column) && batch.table.columns.some(({ name }) => name === column)
      );
      // A filter may look only at what its caller may read.
      if (seen.columns.size === 0 || meant.length === 0 || !isReadable) continue;
      for (const i of await this.#matching(binding.compared, batch.changes, meant)) bindings[i].push(binding);
    }
    return bindings.flatMap((all, i) =>
      [...Map.groupBy(all, ({ select }) => JSON.stringify(select)).values()].map((group): [number, Row] => [
        i,
        told(batch, i, seen, group),
      ])
    );
  }

  /** Which of the changes meet every condition. */
  async #matching(conditions: Compared[], changes: Change[], meant: number[]): Promise<number[]> {
    for (const condition of conditions) {
      const values = meant.map((i) => (changes[i].record ?? changes[i].old)?.get(condition.column) ?? null);
      const plainly = values.map((value) => matchesPlainly(condition, value));
      if (plainly.includes(null)) {
        const rows = await this.connection.driver.unsafe(
          `select coalesce(${comparison(condition)}, false) as matches
           from unnest($1::text[]) with ordinality given (value, i), (values ($2::text[])) own (asked) order by i`,
          [values, condition.values],
        );
        meant = meant.filter((_, n) => rows[n].matches);
      } else meant = meant.filter((_, n) => plainly[n]);
    }
    return meant;
  }
}

/** Read JSON whose numbers are written again as they were, however long. */
function parseExactly(text: string): Row {
  const keep = (_name: string, value: unknown, { source }: { source: string }) =>
    typeof value === "number" && String(value) !== source ? rawJson(source) : value;
  return JSON.parse(text, keep as never);
}

const { rawJSON: rawJson } = JSON as unknown as { rawJSON(text: string): unknown };

/**
 * Tuples as a table of SQL: each column is a text that is cast to its type, so that every type reads what it wrote. A
 * column that a tuple does not have is null; a domain that forbids it is not asked.
 */
function readSql(columns: TableColumn[], parameter: string): { names: string[]; given: string } {
  const texts = columns.map((_, n) => `"c${n}"`);
  const definitions = texts.map((name) => `${name} text`).join(", ");
  return {
    names: texts.map((name, n) => `${name}::${columns[n].cast}`),
    given: `rows from (json_to_recordset(${parameter}::text::json) as (${definitions}))
      with ordinality as given (${texts.join(", ")}, "i")`,
  };
}

function asJson(columns: TableColumn[], tuples: (Tuple | null)[]): string {
  return JSON.stringify(
    tuples.map((tuple) => Object.fromEntries(columns.map(({ name }, n) => [`c${n}`, tuple?.get(name) ?? null]))),
  );
}

/** A change as Realtime tells it to a caller. */
function told({ table, changes, records, olds }: Batch, i: number, seen: Seen, bindings: Followed[]): Row {
  const { type, committedAt } = changes[i];
  const chosen = bindings[0].select;
  const isTold = (name: string) => seen.columns.has(name) && (!chosen || chosen.includes(name) || isKey(name));
  const isKey = (name: string) => table.key.includes(name);
  const only = (row: Row | null, isWanted: (name: string) => boolean) =>
    Object.fromEntries(Object.entries(row ?? {}).filter(([name]) => isWanted(name)));
  const record = only(records[i], isTold);
  // Of a row as it was, nobody can say who might have read it: its key is all that is told where rows are protected.
  const isWhole = olds[i] !== null && !table.isProtected;
  const old = only(olds[i] ?? records[i], (name) => isTold(name) && (isWhole || isKey(name)));
  const data: Row = {
    schema: table.schema,
    table: table.name,
    commit_timestamp: committedAt.toISOString(),
    type,
    columns: table.columns.filter(({ name }) => isTold(name)).map(({ name, type }) => ({ name, type })),
    ...(type === "DELETE" ? {} : { record }),
    ...(type === "INSERT" ? {} : { old_record: old }),
    errors: null,
  };
  if (JSON.stringify(data).length > MAX_CHANGE_BYTES) {
    const isShort = (name: string) => JSON.stringify(record[name]).length <= SHORT_VALUE_BYTES;
    if (type !== "DELETE") data.record = only(record, isShort);
    data.old_record = only(old, isKey);
    data.errors = ["Error 413: Payload Too Large"];
  }
  return { ids: bindings.map(({ id }) => id), data };
}
