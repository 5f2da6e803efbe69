/** What is listed, as a file. */
import { type Cursor, findRollouts, type FoundRollout, type RolloutFilters } from "@/api/rollouts.ts";

export type Format = "csv" | "json";
export const MOST_ROWS = 100_000;
const PAGE_SIZE = 1_000;
const BUDGET_MS = 1_000;

const COLUMNS = [
  "id",
  "training_run_id",
  "run_name",
  "group_id",
  "task_id",
  "task_description",
  "environment",
  "source",
  "status",
  "total_reward",
  "step_count",
  "step",
  "episode_number",
  "agent",
  "model",
  "policy_version",
  "error",
  "started_at",
  "finished_at",
  "created_at",
  "overridden",
] as const;
const MATCH_COLUMNS = ["match_turn", "match_field", "match_snippet"] as const;
const NUMBERS = new Set(["total_reward"]);

/** A cell that spreadsheets take for what it is: text that looks like a formula gets a mark before it, numbers stay numbers. */
export function cell(value: unknown, isNumber = false): string {
  if (value === null || value === undefined) return "";
  if (typeof value !== "string") return String(value);
  const safe = !isNumber && /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

export function csvHead(): string {
  return [...COLUMNS, ...MATCH_COLUMNS].join(",") + "\r\n";
}

export function csvRow(row: FoundRollout): string {
  const { match } = row;
  const found = [match?.step_number, match?.field, match?.snippet].map((value) => cell(value));
  return [...COLUMNS.map((name) => cell(row[name], NUMBERS.has(name))), ...found].join(",") + "\r\n";
}

/** Puts a file together piece by piece; the browser may keep the pieces on disk. */
class FileOf {
  #parts: Blob[] = [];
  #count = 0;

  constructor(readonly format: Format) {}

  add(rows: FoundRollout[]): void {
    const texts = this.format === "csv"
      ? rows.map(csvRow)
      : rows.map((row, index) => (this.#count + index ? ",\n" : "") + JSON.stringify(row));
    this.#parts.push(new Blob(texts));
    this.#count += rows.length;
  }

  save(name: string): void {
    const parts = this.format === "csv" ? [csvHead(), ...this.#parts] : ["[\n", ...this.#parts, "\n]\n"];
    const type = this.format === "csv" ? "text/csv;charset=utf-8" : "application/json";
    const address = URL.createObjectURL(new Blob(parts, { type }));
    Object.assign(document.createElement("a"), { href: address, download: `${name}.${this.format}` }).click();
    setTimeout(() => URL.revokeObjectURL(address), 60_000);
  }
}

export function fileName(): string {
  return `rollouts-${new Date().toISOString().slice(0, 19).replaceAll(":", "-")}`;
}

export function saveRows(rows: FoundRollout[], format: Format): void {
  const file = new FileOf(format);
  file.add(rows);
  file.save(fileName());
}

export interface Exported {
  rows: number;
  searched: number;
  /** There are more than fit into one file. */
  isCut: boolean;
}

/** Walk along all that match and save them; nothing is saved when it is cancelled. */
export async function saveAll(
  filters: RolloutFilters,
  format: Format,
  onProgress: (so_far: Exported) => void,
  signal: AbortSignal,
): Promise<Exported> {
  const file = new FileOf(format);
  const done: Exported = { rows: 0, searched: 0, isCut: false };
  let after: Cursor | null = null;
  do {
    const pageSize = Math.min(PAGE_SIZE, MOST_ROWS - done.rows);
    const page = await findRollouts(filters, after, { pageSize, budgetMs: BUDGET_MS }, signal);
    signal.throwIfAborted();
    file.add(page.rollouts);
    done.rows += page.rollouts.length;
    done.searched += page.searched;
    after = page.next;
    onProgress({ ...done });
  } while (after !== null && done.rows < MOST_ROWS);
  done.isCut = after !== null;
  file.save(fileName());
  return done;
}
