/** Whether the project's database answers a query. */
import type { Environment } from "../_shared/environment.ts";

const TIMEOUT_MS = 5_000;

/**
 * Ask the Data API for one row; true when Postgres answered.
 *
 * Before the first migration the table is unknown and the Data API answers from its cache, without asking Postgres:
 * then the list of buckets, which every project has, is asked for.
 */
export async function databaseAnswers(environment: Environment): Promise<boolean> {
  const key = environment.secretKeys.default ?? Object.values(environment.secretKeys)[0];
  const ask = (path: string) =>
    fetch(`${environment.url}${path}`, {
      headers: { apikey: key, Authorization: `Bearer ${key}` },
      signal: AbortSignal.timeout(TIMEOUT_MS),
    });
  try {
    let response = await ask("/rest/v1/training_runs?select=id&limit=1");
    await response.body?.cancel();
    if (response.status === 404) {
      response = await ask("/storage/v1/bucket");
      await response.body?.cancel();
    }
    return response.ok;
  } catch (error) {
    console.error("health: the database was not reached:", (error as Error).message);
    return false;
  }
}
