/** A function's input: read within limits, parsed, and checked against its schema. */
import { v } from "./deps.ts";
import { FunctionError, invalid } from "./errors.ts";
import { isObject, parseExactly } from "./json.ts";
import { isNestedDeeper } from "./nesting.ts";
import { findUnstorable, type Problem } from "./storable.ts";

const MAX_PROBLEMS = 20;
/** What is nested less is parsed, to name the field that is nested too deep; millions of brackets would take too long. */
const MAX_PARSED_NESTING = 200_000;
const MAX_MESSAGE_LENGTH = 300;

// deno-lint-ignore no-explicit-any
export type Schema = v.GenericSchema<any, any>;

/** The query string as an object; a parameter left empty counts as not given. */
export function queryOf(request: Request): Record<string, string> {
  const entries = [...new URL(request.url).searchParams].filter(([, value]) => value !== "");
  return Object.fromEntries(entries);
}

/** The JSON body; 413 as soon as it is known to be too large, 400 when it is not a JSON object. */
export async function readJson(
  request: Request,
  maxBytes: number,
  { mayBeEmpty = false }: { mayBeEmpty?: boolean } = {},
): Promise<Record<string, unknown>> {
  const text = await readText(request, maxBytes);
  if (text.trim() === "") {
    if (mayBeEmpty) return {};
    throw invalid("the body is empty; send a JSON object");
  }
  const value = parse(text);
  if (!isObject(value)) {
    throw invalid("the body is not an object; send one, such as {}");
  }
  return value;
}

/** The value of a JSON text; 400 says why it is none. */
export function parse(text: string): unknown {
  if (isNestedDeeper(new TextEncoder().encode(text), MAX_PARSED_NESTING)) {
    throw invalid(`the body is nested more than ${MAX_PARSED_NESTING} levels deep`);
  }
  try {
    return parseExactly(text);
  } catch (error) {
    throw invalid(`the body is not JSON: ${clip((error as Error).message)}`);
  }
}

/** The body as a text; 413 as soon as it is known to be too large. */
export async function readText(request: Request, maxBytes: number): Promise<string> {
  const decoder = new TextDecoder("utf-8", { fatal: true });
  let text = "";
  try {
    for await (const chunk of chunksOf(request, maxBytes)) text += decoder.decode(chunk, { stream: true });
    return text + decoder.decode();
  } catch (error) {
    if (error instanceof TypeError) throw invalid("the body is not UTF-8");
    throw error;
  }
}

/** The body as it is; 413 as soon as it is known to be too large. */
export async function readBytes(request: Request, maxBytes: number): Promise<Blob> {
  const chunks: Uint8Array<ArrayBuffer>[] = [];
  for await (const chunk of chunksOf(request, maxBytes)) chunks.push(chunk);
  return new Blob(chunks);
}

async function* chunksOf(request: Request, maxBytes: number): AsyncGenerator<Uint8Array<ArrayBuffer>> {
  if (Number(request.headers.get("content-length") ?? 0) > maxBytes) throw tooLarge(maxBytes);
  let bytes = 0;
  for await (const chunk of request.body ?? []) {
    bytes += chunk.byteLength;
    if (bytes > maxBytes) throw tooLarge(maxBytes);
    yield chunk;
  }
}

function tooLarge(maxBytes: number): FunctionError {
  return new FunctionError(413, "too_large", `the body exceeds ${maxBytes} bytes`, { max_bytes: maxBytes });
}

/** The checked input; each thing wrong with it is named by its path. */
export function validate<S extends Schema>(schema: S, input: unknown): v.InferOutput<S> {
  const { output, problems } = check(schema, input);
  if (problems.length > 0) throw refused(problems);
  return output;
}

/** The checked input, or everything that is wrong with it. */
export function check<S extends Schema>(
  schema: S,
  input: unknown,
): { output: v.InferOutput<S>; problems: Problem[] } {
  const unstorable = findUnstorable(input);
  if (unstorable !== null) return { output: undefined, problems: [clipped(unstorable)] };
  const { output, issues = [] } = v.safeParse(schema, input);
  return {
    output,
    problems: issues.map((issue) => clipped({ path: v.getDotPath(issue) ?? "", message: explain(issue) })),
  };
}

/** The first few problems: a long list of bad records would make a longer answer. */
function refused(problems: Problem[]): FunctionError {
  const shown = problems.slice(0, MAX_PROBLEMS);
  const sentences = shown.map(({ path, message }) => (path ? `${path}: ${message}` : message));
  if (problems.length > shown.length) sentences.push(`and ${problems.length - shown.length} more`);
  return invalid(sentences.join("; "), shown);
}

function clipped({ path, message }: Problem): Problem {
  return { path: clip(path), message: clip(message) };
}

/** What is quoted from the input may be as long as the input. */
function clip(text: string): string {
  const characters = [...text.slice(0, 2 * MAX_MESSAGE_LENGTH)];
  return characters.length > MAX_MESSAGE_LENGTH ? `${characters.slice(0, MAX_MESSAGE_LENGTH).join("")}…` : text;
}

function explain(issue: v.BaseIssue<unknown>): string {
  const missing = issue.received === "undefined" && issue.kind === "schema";
  return missing ? "is required" : issue.message;
}
