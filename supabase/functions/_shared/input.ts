/** A function's input: read within limits, parsed, and checked against its schema. */
import { v } from "./deps.ts";
import { FunctionError, invalid } from "./errors.ts";

// deno-lint-ignore no-explicit-any
export type Schema = v.GenericSchema<any, any>;

/** The query string as an object; a parameter left empty counts as not given. */
export function queryOf(request: Request): Record<string, string> {
  const entries = [...new URL(request.url).searchParams].filter(([, value]) => value !== "");
  return Object.fromEntries(entries);
}

/** The JSON body; 413 as soon as it is known to be too large, 400 when it is not JSON. */
export async function readJson(request: Request, maxBytes: number): Promise<unknown> {
  const text = await readText(request, maxBytes);
  if (text.trim() === "") throw invalid("the body is empty; send a JSON object");
  try {
    return JSON.parse(text);
  } catch (error) {
    throw invalid(`the body is not JSON: ${(error as Error).message}`);
  }
}

async function readText(request: Request, maxBytes: number): Promise<string> {
  if (Number(request.headers.get("content-length") ?? 0) > maxBytes) throw tooLarge(maxBytes);
  const decoder = new TextDecoder("utf-8", { fatal: true });
  let bytes = 0;
  let text = "";
  try {
    for await (const chunk of request.body ?? []) {
      bytes += chunk.byteLength;
      if (bytes > maxBytes) throw tooLarge(maxBytes);
      text += decoder.decode(chunk, { stream: true });
    }
    return text + decoder.decode();
  } catch (error) {
    if (error instanceof TypeError) throw invalid("the body is not UTF-8");
    throw error;
  }
}

function tooLarge(maxBytes: number): FunctionError {
  return new FunctionError(413, "too_large", `the body exceeds ${maxBytes} bytes`, { max_bytes: maxBytes });
}

/** The checked input; each thing wrong with it is named by its path. */
export function validate<S extends Schema>(schema: S, input: unknown): v.InferOutput<S> {
  const result = v.safeParse(schema, input);
  if (result.success) return result.output;
  const problems = result.issues.map((issue) => ({ path: v.getDotPath(issue) ?? "", message: explain(issue) }));
  throw invalid(problems.map(({ path, message }) => (path ? `${path}: ${message}` : message)).join("; "), problems);
}

function explain(issue: v.BaseIssue<unknown>): string {
  const missing = issue.received === "undefined" && issue.kind === "schema";
  return missing ? `is required${issue.expected ? ` (expected ${expectedType(issue)})` : ""}` : issue.message;
}

/** For a missing key, valibot expects the key's name; say the type only when it is known. */
function expectedType(issue: v.BaseIssue<unknown>): string {
  return issue.expected?.startsWith('"') ? "a value" : String(issue.expected);
}
