/** Files in storage: listed folder by folder, read by addresses that are signed for a while. */
import { StorageApiError } from "@supabase/supabase-js";
import { RequestError, supabase } from "@/supabase.ts";

export interface StoredFile {
  name: string;
  /** Folders have none. */
  size: number | null;
  isFolder: boolean;
  updatedAt: string | null;
  contentType: string | null;
}

export const FILES_PER_PAGE = 100;
const SIGNED_SECONDS = 3600;

/** The data of storage's answer, or a RequestError that can be shown. */
async function stored<T>(request: Promise<{ data: T; error: Error | null }>): Promise<NonNullable<T>> {
  const { data, error } = await request;
  // Without an error there is data.
  if (error === null) return data!;
  throw error instanceof StorageApiError ? new RequestError(error.message, error.statusCode) : RequestError.offline();
}

interface Listing {
  newestFirst?: boolean;
  offset?: number;
}

export async function listFiles(
  bucket: string,
  folder: string,
  { newestFirst, offset = 0 }: Listing = {},
): Promise<StoredFile[]> {
  const sortBy = newestFirst ? { column: "updated_at", order: "desc" } : { column: "name", order: "asc" };
  const found = await stored(
    supabase().storage.from(bucket).list(folder, { limit: FILES_PER_PAGE, offset, sortBy }),
  );
  return found.map((entry) => ({
    name: entry.name,
    isFolder: entry.id === null,
    size: (entry.metadata?.size as number | undefined) ?? null,
    updatedAt: entry.updated_at ?? null,
    contentType: (entry.metadata?.mimetype as string | undefined) ?? null,
  }));
}

export async function signedAddress(bucket: string, path: string, download: boolean): Promise<string> {
  const { signedUrl } = await stored(
    supabase().storage.from(bucket).createSignedUrl(path, SIGNED_SECONDS, { download }),
  );
  return signedUrl;
}

/** Let the browser save a file of storage. */
export async function saveFile(bucket: string, path: string): Promise<void> {
  const link = Object.assign(document.createElement("a"), {
    href: await signedAddress(bucket, path, true),
    download: "",
  });
  link.click();
}

/** A text of storage, all of it. */
export async function readStoredText(bucket: string, path: string): Promise<string> {
  return await (await stored(supabase().storage.from(bucket).download(path))).text();
}

/** The last bytes of a text, and whether there is more before them. */
export async function readEnd(bucket: string, path: string, bytes: number, signal: AbortSignal) {
  const answer = await fetch(await signedAddress(bucket, path, false), {
    headers: { range: `bytes=-${bytes}` },
    signal,
  });
  // An empty file has no last bytes.
  if (answer.status === 416) return { text: "", isCut: false };
  if (!answer.ok) throw new RequestError(`The file could not be read (${answer.status}).`, String(answer.status));
  const all = await answer.arrayBuffer();
  const [, first] = /^bytes (\d+)-/.exec(answer.headers.get("content-range") ?? "") ?? [];
  const isCut = all.byteLength > bytes || Number(first ?? 0) > 0;
  const text = new TextDecoder().decode(all.slice(-bytes));
  // It may begin within a line, even within a character.
  return { text: isCut ? text.slice(text.indexOf("\n") + 1) : text, isCut };
}

/** The last bytes of a text; `size` is how long it was when it was listed. */
export async function readTail(
  bucket: string,
  path: string,
  size: number,
  bytes: number,
  signal: AbortSignal,
): Promise<string> {
  if (size === 0) return "";
  const from = Math.max(0, size - bytes);
  const answer = await fetch(await signedAddress(bucket, path, false), {
    headers: { range: `bytes=${from}-` },
    signal,
  });
  if (!answer.ok) {
    throw new RequestError(`The file could not be read (${answer.status}).`, String(answer.status));
  }
  const text = new TextDecoder().decode((await answer.arrayBuffer()).slice(-bytes));
  // It may begin within a line, even within a character.
  return from > 0 ? text.slice(text.indexOf("\n") + 1) : text;
}
