/** Reads rows of an archived file as JSON texts in which every value is exact, fetching only the row groups that hold them. */
import {
  type AsyncBuffer,
  decompressZstd,
  type FileMetaData,
  parquetMetadataAsync,
  parquetReadObjects,
} from "../_shared/deps.ts";
import { FunctionError } from "../_shared/errors.ts";

export interface ArchivedFile {
  table: string;
  path: string;
  rows: number;
  size_bytes: number;
  first_rollout: string | null;
  last_rollout: string | null;
}

type Row = Record<string, unknown>;

const READING = {
  compressors: { ZSTD: (input: Uint8Array, length: number) => decompressZstd(input, new Uint8Array(length)) },
  // Dates have milliseconds, the database microseconds.
  parsers: { timestampFromMicroseconds: momentOf },
};

/** What is missing or damaged stays so, a conflict; what storage does not answer may pass. */
export function unreadable(path: string, reason: string, status?: number): FunctionError {
  const isLasting = status !== undefined && status < 500;
  const advice = `\`openmanus-rl archive verify ${path.split("/")[0]}\` checks all files of this archive`;
  return new FunctionError(isLasting ? 409 : 502, "archive_unreadable", `${path}: ${reason}; ${advice}`);
}

/** The rows of a rollout, or all rows, in the order of the file. */
export async function* readRows(
  url: string,
  file: ArchivedFile,
  rolloutId: string | null,
  types: Record<string, string>,
): AsyncGenerator<string> {
  try {
    yield* rowsOf(url, file, rolloutId, types);
  } catch (error) {
    if (error instanceof FunctionError) throw error;
    console.error(`${file.path} cannot be read as Parquet:`, error);
    throw unreadable(file.path, "it is damaged", 409);
  }
}

async function* rowsOf(
  url: string,
  file: ArchivedFile,
  rolloutId: string | null,
  types: Record<string, string>,
): AsyncGenerator<string> {
  const buffer = remote(url, file);
  const metadata = await parquetMetadataAsync(buffer);
  for (const [rowStart, rowEnd] of ranges(metadata, rolloutId)) {
    // deno-lint-ignore no-explicit-any
    const rows = await parquetReadObjects({ file: buffer, metadata, rowStart, rowEnd, ...READING } as any) as Row[];
    for (const row of rows) {
      if (rolloutId === null || row.rollout_id === rolloutId) yield rowText(row, types);
    }
  }
}

/** From which row to which each row group goes that may hold rows of the rollout. */
function ranges(metadata: FileMetaData, rolloutId: string | null): [number, number][] {
  const found: [number, number][] = [];
  let start = 0;
  for (const group of metadata.row_groups) {
    const end = start + Number(group.num_rows);
    const column = group.columns.find((one) => one.meta_data?.path_in_schema.join(".") === "rollout_id");
    const { min_value: low, max_value: high } = column?.meta_data?.statistics ?? {};
    const is_outside = rolloutId !== null && low != null && high != null && (rolloutId < low || rolloutId > high);
    if (!is_outside) found.push([start, end]);
    start = end;
  }
  return found;
}

function remote(url: string, file: ArchivedFile): AsyncBuffer {
  return {
    byteLength: file.size_bytes,
    async slice(start: number, end: number = file.size_bytes): Promise<ArrayBuffer> {
      // Not with its message: that has the signed URL.
      const failed = () => Promise.reject(unreadable(file.path, "storage does not answer"));
      const response = await fetch(url, { headers: { Range: `bytes=${start}-${end - 1}` } }).catch(failed);
      if (!response.ok) {
        await response.body?.cancel();
        throw unreadable(file.path, `storage answered ${response.status}`, response.status);
      }
      const bytes = await response.arrayBuffer().catch(failed);
      return response.status === 206 ? bytes : bytes.slice(start, end);
    },
  };
}

function momentOf(microseconds: bigint): string {
  const below = ((microseconds % 1_000_000n) + 1_000_000n) % 1_000_000n;
  const second = new Date(Number((microseconds - below) / 1000n)).toISOString().slice(0, 19);
  return `${second}.${String(below).padStart(6, "0")}+00:00`;
}

function rowText(row: Row, types: Record<string, string>): string {
  const parts = Object.entries(row).map(([name, value]) =>
    // JSON stays the text that it is: parsing would round its numbers.
    `${JSON.stringify(name)}:${types[name] === "jsonb" && value != null ? value : JSON.stringify(plain(value))}`
  );
  return `{${parts.join(",")}}`;
}

/** Numbers that JSON does not have are texts, which the database reads as numbers again. */
function plain(value: unknown): unknown {
  if (typeof value === "bigint") return String(value);
  if (typeof value === "number" && (!Number.isFinite(value) || Object.is(value, -0))) {
    return Object.is(value, -0) ? "-0" : String(value);
  }
  if (Array.isArray(value) || ArrayBuffer.isView(value)) return Array.from(value as unknown[], plain);
  return value ?? null;
}
