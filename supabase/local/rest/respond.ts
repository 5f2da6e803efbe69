/** Answers as HTTP responses: status, Content-Range, Preference-Applied, and what SQL overrides of them. */
import { ApiError } from "./errors.ts";
import type { Media } from "./media.ts";
import { applied, type Preference, type Preferences } from "./prefer.ts";
import { type Query, type Range, rangeError } from "./query_string.ts";
import type { Relation } from "./schema.ts";
import type { Answer } from "./statement.ts";

const ALWAYS: Preference[] = ["count", "tx", "handling", "timezone"];

interface Read {
  preferences: Preferences;
  media: Media;
  method: string;
  /** Where the same rows are found, whatever order the parameters came in. */
  location: string;
}

export function readResponse(answer: Answer, range: Range, { preferences, media, method, location }: Read): Response {
  const headers = preferenceHeaders(preferences, ALWAYS);
  headers.set("Content-Location", location);
  headers.set("Content-Range", contentRange(range.offset, answer.page, answer.total));
  headers.set("Content-Type", media.contentType);
  return respond(rangeStatus(answer, range), method === "HEAD" ? unsaid() : answer.body, headers, answer);
}

interface Call {
  preferences: Preferences;
  media: Media;
  method: string;
  isVoid: boolean;
}

export function callResponse(answer: Answer, range: Range, { preferences, media, method, isVoid }: Call): Response {
  const headers = preferenceHeaders(preferences, [...ALWAYS, "max-affected"]);
  headers.set("Content-Range", contentRange(range.offset, answer.page, answer.total));
  if (isVoid) return respond(204, null, headers, answer);
  headers.set("Content-Type", media.contentType);
  const body = media.kind === "bytes" ? Uint8Array.fromHex(answer.body) : answer.body;
  return respond(rangeStatus(answer, range), method === "HEAD" ? unsaid() : body, headers, answer);
}

interface Write {
  method: string;
  relation: Relation;
  query: Query;
  preferences: Preferences;
  media: Media;
}

export function writeResponse(answer: Answer, { method, relation, query, preferences, media }: Write): Response {
  const isInsert = method === "POST";
  const names: Preference[] = [...ALWAYS, "return"];
  if (isInsert && (relation.primaryKey.length > 0 || query.onConflict)) names.push("resolution");
  if (isInsert || method === "PATCH") names.push("missing");
  if (method === "PATCH" || method === "DELETE") names.push("max-affected");
  const headers = preferenceHeaders(preferences, names);
  if (method !== "PUT") {
    const total = preferences.count ? answer.page : null;
    headers.set("Content-Range", contentRange(0, method === "PATCH" ? answer.page : 0, total));
  }
  if (isInsert && answer.location) {
    headers.set("Location", `/${encodeURIComponent(relation.name)}?${locationQuery(answer.location)}`);
  }
  const returnsRows = preferences.return === "representation";
  if (returnsRows) headers.set("Content-Type", media.contentType);
  return respond(writeStatus(method, preferences, answer), returnsRows ? answer.body : null, headers, answer);
}

function writeStatus(method: string, preferences: Preferences, { inserted }: Answer): number {
  const isNew = (inserted ?? 0) > 0;
  if (method === "POST") {
    return preferences.resolution === "merge-duplicates" && !isNew ? 200 : 201;
  }
  if (preferences.return !== "representation") return 204;
  return method === "PUT" && isNew ? 201 : 200;
}

function locationQuery(location: NonNullable<Answer["location"]>): string {
  return location.map(([name, value]) =>
    `${encodeURIComponent(name)}=${value === null ? "is.null" : `eq.${encodeURIComponent(value)}`}`
  ).join("&");
}

/** What HEAD is answered with: no length, for 0 would be a wrong one, and what GET is sent is not made. */
export function unsaid(): ReadableStream {
  return new ReadableStream({ start: (controller) => controller.close() });
}

function preferenceHeaders(preferences: Preferences, names: Preference[]): Headers {
  const value = applied(preferences, names);
  return new Headers(value ? { "Preference-Applied": value } : {});
}

function contentRange(offset: number, rows: number, total: number | null): string {
  const range = rows > 0 && total !== 0 ? `${offset}-${offset + rows - 1}` : "*";
  return `${range}/${total ?? "*"}`;
}

function rangeStatus({ page, total }: Answer, { offset }: Range): number {
  if (total === null) return 200;
  if (offset > total) {
    const details = `An offset of ${offset} was requested, but there are only ${total} rows.`;
    throw rangeError(details, { "Content-Range": contentRange(offset, 0, total) });
  }
  return page < total ? 206 : 200;
}

/** The response, with the status and the headers that a function chose with `response.status` and `response.headers`. */
function respond(
  status: number,
  body: string | Uint8Array<ArrayBuffer> | ReadableStream | null,
  headers: Headers,
  chosen: Answer,
): Response {
  const ours = chosenHeaders(chosen.headers);
  for (const [name] of ours) headers.delete(name);
  // One name may come several times, as Set-Cookie does.
  for (const [name, value] of ours) headers.append(name, inBytes(value));
  const final = chosen.status === null ? status : Number(chosen.status);
  if (!Number.isInteger(final) || final < 200 || final > 599) {
    throw new ApiError(500, "PGRST112", "response.status guc must be a valid status code");
  }
  const isBodyless = final === 204 || final === 205 || final === 304;
  // Deno sends no length with 205, and a client would wait for a body until the connection ends.
  return new Response(isBodyless ? null : body, { status: final === 205 ? 204 : final, headers });
}

/** A header holds bytes: text of any script is sent as UTF-8. */
function inBytes(value: string): string {
  return Array.from(new TextEncoder().encode(value), (byte) => String.fromCharCode(byte)).join("");
}

function chosenHeaders(text: string | null): [string, string][] {
  if (text === null) return [];
  try {
    const pairs = (JSON.parse(text) as Record<string, unknown>[]).map((header) => Object.entries(header));
    if (pairs.every((pair) => pair.length === 1 && typeof pair[0][1] === "string")) {
      const chosen = pairs.map(([pair]) => pair as [string, string]);
      for (const [name, value] of chosen) new Headers([[name, inBytes(value)]]); // throws at what is no header
      return chosen;
    }
  } catch {
    // Told below.
  }
  const message = "response.headers guc must be a JSON array composed of objects with a single key and a string value";
  throw new ApiError(500, "PGRST111", message);
}
