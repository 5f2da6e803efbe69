/**
 * Kysely on postgres.js.
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

// deno-lint-ignore no-explicit-any
export type Database = Kysely<any>;

type Runner = postgres.Sql | postgres.TransactionSql;

class Connection implements DatabaseConnection {
  constructor(readonly runner: Runner) {}

  async executeQuery<R>({ sql, parameters }: CompiledQuery): Promise<QueryResult<R>> {
    const result = await this.runner.unsafe(sql, parameters as never[]);
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

  constructor(runner: Runner) {
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

/** A query builder whose queries run on the pool, or in a transaction. */
export function kyselyOn(runner: Runner): Database {
  return new Kysely({
    dialect: {
      createAdapter: () => new PostgresAdapter(),
      createDriver: () => new RunnerDriver(runner),
      createIntrospector: (database) => new PostgresIntrospector(database),
      createQueryCompiler: () => new PostgresQueryCompiler(),
    },
  });
}
