/** The tasks in a body: JSON, JSON Lines, or a form with a file of either. */
import { v } from "../_shared/deps.ts";
import { FunctionError, invalid } from "../_shared/errors.ts";
import { MAX_NAME_LENGTH } from "../_shared/fields.ts";
import { parse, readBytes, readText } from "../_shared/input.ts";
import { isObject } from "../_shared/json.ts";
import { MAX_BODY_BYTES } from "../_shared/serve.ts";

/** An entry, or why it could not be read. */
export type Item = { value: unknown } | { problem: string };

export interface Upload {
  items: Item[];
  environment: string | null;
}

const LINES = /(ndjson|jsonl|jsonlines|json-seq)\b/i;

export async function readUpload(request: Request): Promise<Upload> {
  const type = request.headers.get("content-type") ?? "";
  if (/^multipart\/form-data\b/i.test(type)) return await readForm(request, type);
  return itemsOf(await readText(request, MAX_BODY_BYTES), LINES.test(type));
}

async function readForm(request: Request, type: string): Promise<Upload> {
  const bytes = await readBytes(request, MAX_BODY_BYTES);
  let form: FormData;
  try {
    form = await new Response(bytes, { headers: { "content-type": type } }).formData();
  } catch {
    throw invalid("the body is not the form that its content type says");
  }
  const known = ["file", "environment"];
  const unknown = [...form.keys()].find((key) => !known.includes(key));
  if (unknown !== undefined) throw invalid(`${unknown}: no such field; there are ${known.join(", ")}`);
  const [file, ...others] = form.getAll("file");
  if (!(file instanceof File) || others.length > 0) throw invalid("file: one file is expected");
  const environment = form.get("environment");
  const upload = itemsOf(await textOf(file), LINES.test(file.type) || /\.(jsonl|ndjson)$/i.test(file.name));
  return { ...upload, environment: environment ? environmentOf(environment) : upload.environment };
}

async function textOf(file: File): Promise<string> {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer());
  } catch {
    throw invalid("file: is not UTF-8");
  }
}

function itemsOf(text: string, isLines: boolean): Upload {
  if (text.trim() === "") throw invalid("the body is empty; send a list of tasks");
  if (isLines || looksLikeLines(text)) return { items: linesOf(text), environment: null };
  const value = parse(text);
  if (Array.isArray(value)) return { items: value.map((one) => ({ value: one })), environment: null };
  if (!isObject(value) || !Array.isArray(value.tasks)) {
    throw invalid("a list of tasks is expected, or an object {tasks: [...], environment}");
  }
  const { tasks, environment, ...others } = value;
  const [unknown] = Object.keys(others);
  if (unknown !== undefined) throw invalid(`${unknown}: no such field; there are tasks, environment`);
  return {
    items: tasks.map((one: unknown) => ({ value: one })),
    environment: environment == null ? null : environmentOf(environment),
  };
}

/** curl sends files without telling what they are. */
function looksLikeLines(text: string): boolean {
  const [first, rest] = [text.trimStart().split("\n", 1)[0], text.trim().includes("\n")];
  if (!rest || !first.startsWith("{")) return false;
  try {
    return isObject(JSON.parse(first));
  } catch {
    return false;
  }
}

function linesOf(text: string): Item[] {
  return text.split("\n").filter((line) => line.trim() !== "").map((line) => {
    try {
      return { value: parse(line) };
    } catch (error) {
      if (error instanceof FunctionError) return { problem: error.message.replace("the body", "the line") };
      throw error;
    }
  });
}

function environmentOf(value: unknown): string {
  const isName = v.is(v.pipe(v.string(), v.minLength(1), v.maxLength(MAX_NAME_LENGTH)), value);
  if (!isName || value.includes("\0")) {
    throw invalid(`environment: a text of up to ${MAX_NAME_LENGTH} characters is expected`);
  }
  return value;
}
