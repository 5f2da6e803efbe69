/**
 * Kysely on postgres.js, and what to do when Postgres closes a connection.
 *
 * Lite's own adapter reserves a connection for each query and sends ROLLBACK on it even after the server has closed it:
 * the request then never ends, or the process does. Here single queries go to the pool, and transactions are those of
 * postgres.js, which end when their connection does.
 */
import {
  type CompiledQuery,
  type DatabaseConnection,
  type Driver,
  Kysely,
  PostgresAdapter,
  PostgresIntrospector,
  PostgresQueryCompiler,
  type QueryResult,
} from "kysely";
import type postgres from "postgres";
import { isFull, isUnavailable } from "./errors.ts";

// deno-lint-ignore no-explicit-any
export type Database = Kysely<any>;

type Runner = postgres.Sql | postgres.TransactionSql;

class Connection implements DatabaseConnection {
  constructor(readonly runner: () => Runner) {}

  async executeQuery<R>({ sql, parameters }: CompiledQuery): Promise<QueryResult<R>> {
    const result = await this.runner().unsafe(sql, parameters as never[]);
    const changes = /^(INSERT|UPDATE|DELETE|MERGE)$/.test(result.command);
    return { rows: [...result] as R[], numAffectedRows: changes ? BigInt(result.count) : undefined };
  }

  // deno-lint-ignore require-yield
  async *streamQuery<R>(): AsyncIterableIterator<QueryResult<R>> {
    throw new Error("queries are not streamed");
  }
}

class RunnerDriver implements Driver {
  readonly #connection: Connection;

  constructor(runner: () => Runner) {
    this.#connection = new Connection(runner);
  }

  async init(): Promise<void> {}
  async releaseConnection(): Promise<void> {}
  async destroy(): Promise<void> {}

  acquireConnection(): Promise<DatabaseConnection> {
    return Promise.resolve(this.#connection);
  }

  beginTransaction(): Promise<void> {
    throw new Error("transactions are begun on the connection, with runInTransaction");
  }

  commitTransaction = this.beginTransaction;
  rollbackTransaction = this.beginTransaction;
}

/** A query builder whose queries run on the pool of the moment, or in a transaction. */
export function kyselyOn(runner: () => Runner): Database {
  return new Kysely({
    dialect: {
      createAdapter: () => new PostgresAdapter(),
      createDriver: () => new RunnerDriver(runner),
      createIntrospector: (database) => new PostgresIntrospector(database),
      createQueryCompiler: () => new PostgresQueryCompiler(),
    },
  });
}

/** How long a request waits for a Postgres that is just starting; the supervisor needs about a second to restart it. */
const BEGIN_PATIENCE_MS = 3_000;
/** How long a request waits where Postgres takes no more connections: until others of ours have ended. */
const FULL_PATIENCE_MS = 20_000;
const BEGIN_PAUSE_MS = 100;
/** After this, a connection that was being opened when its pool was left is open or has failed. */
const STRAGGLERS_MS = 10_000;
/** How often a pool that was left is looked at, and so how long its single statements have to end. */
const LOOK_MS = 500;
/** After this, a transaction of a pool that was left has passed every time limit: its connection is dead. */
const LONGEST_TRANSACTION_MS = 180_000;

/** The transactions of a pool. */
interface Use {
  running: number;
  /** What refuses those that wait for a connection. */
  waiting: Set<(reason: Error) => void>;
  isLeft: boolean;
  /** How many connections Postgres refused, being full, and has yet to close. */
  refused: number;
}

const uses = new WeakMap<postgres.Sql, Use>();

/**
 * Run a transaction on the pool of the moment.
 *
 * One that could not begin did nothing yet, so it is begun again for a while; one that had begun fails with its connection.
 */
export async function begin<T>(
  pool: () => postgres.Sql,
  run: (transaction: postgres.TransactionSql) => Promise<T>,
): Promise<T> {
  let begun = false;
  return await patiently(
    () =>
      pool().begin((transaction) => {
        begun = true;
        return run(transaction);
      }) as Promise<T>,
    () => !begun,
  );
}

/** Do something that Postgres may be away for, again for a while as long as it may be repeated. */
export async function patiently<T>(work: () => Promise<T>, mayRepeat: () => boolean = () => true): Promise<T> {
  const since = Date.now();
  while (true) {
    try {
      return await work();
    } catch (error) {
      const patienceMs = isFull(error) ? FULL_PATIENCE_MS : isUnavailable(error) ? BEGIN_PATIENCE_MS : 0;
      if (!mayRepeat() || Date.now() - since >= patienceMs) throw error;
      await new Promise((resolve) => setTimeout(resolve, BEGIN_PAUSE_MS));
    }
  }
}

/** Count the transactions of a pool, so that those that run can end when it is left, and those that wait do not begin. */
export function counted(pool: postgres.Sql): postgres.Sql {
  const use: Use = { running: 0, waiting: new Set(), isLeft: false, refused: 0 };
  uses.set(pool, use);
  const beginUncounted = pool.begin as (...given: unknown[]) => Promise<unknown>;
  const beginCounted = async (...given: unknown[]) => {
    if (use.isLeft) throw leftError();
    const run = given.pop() as (transaction: postgres.TransactionSql) => unknown;
    const { promise, resolve, reject } = Promise.withResolvers<unknown>();
    use.waiting.add(reject);
    let begun = false;
    const begin = (transaction: postgres.TransactionSql) => {
      if (use.isLeft) throw leftError();
      [begun, use.running] = [true, use.running + 1];
      use.waiting.delete(reject);
      return run(transaction);
    };
    beginUncounted(...given, begin).then(resolve, reject);
    try {
      return await promise;
    } catch (error) {
      if (!begun && isFull(error)) use.refused++;
      throw error;
    } finally {
      use.waiting.delete(reject);
      if (begun) use.running--;
    }
  };
  return Object.assign(pool, { begin: beginCounted as typeof pool.begin });
}

/** Whether a connection that was closed just now had only been refused: nothing happened to the others. */
export function wasRefused(pool: postgres.Sql): boolean {
  const use = uses.get(pool)!;
  if (use.refused === 0) return false;
  use.refused--;
  return true;
}

function leftError(): Error {
  return Object.assign(new Error("the pool was left"), { code: "CONNECTION_ENDED" });
}

/**
 * Leave a pool for good: what runs in it on connections that still are may end, and nothing else begins.
 *
 * postgres.js reopens a connection with what it had not sent before, ahead of the handshake, so that the new one times
 * out; and it sends the ROLLBACK of a transaction that was cut off to whoever has the reopened connection by then.
 */
export function leave(pool: postgres.Sql): void {
  const use = uses.get(pool)!;
  use.isLeft = true;
  for (const refuse of use.waiting) refuse(leftError());
  const giveUpAt = Date.now() + LONGEST_TRANSACTION_MS;
  const timer = setInterval(() => {
    if (use.running > 0 && Date.now() < giveUpAt) return;
    clearInterval(timer);
    pool.end({ timeout: 0 }).catch(() => {});
    const { close } = pool as unknown as { close(): Promise<void> }; // Missing from its types.
    setTimeout(() => close().catch(() => {}), STRAGGLERS_MS);
  }, LOOK_MS);
}
