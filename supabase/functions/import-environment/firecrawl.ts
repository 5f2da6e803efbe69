/** Firecrawl's API: a page is fetched there, and what a schema asks for is read from it by a language model. */
import { FunctionError } from "../_shared/errors.ts";
import { isObject } from "../_shared/json.ts";

const TIMEOUT_MS = 90_000;
const PATIENCE_MS = TIMEOUT_MS + 10_000;
const MAX_ANSWER_BYTES = 4 * 1024 * 1024;
const MAX_PAGES = 40;
const MAX_QUOTED = 300;

export interface Service {
  url: string;
  key: string | null;
}

export interface Page {
  /** What was extracted. */
  json: Record<string, unknown>;
  title: string | null;
  /** The addresses that Firecrawl says the page has. */
  urls: string[];
}

/** Where Firecrawl is; 501 names the setting that is missing. */
export function getService(): Service {
  const key = Deno.env.get("FIRECRAWL_API_KEY")?.trim() || null;
  const url = Deno.env.get("FIRECRAWL_API_URL")?.trim() || null;
  if (key === null && url === null) {
    throw new FunctionError(
      501,
      "not_configured",
      "FIRECRAWL_API_KEY is not set: papers are read by Firecrawl; set its key (or FIRECRAWL_API_URL of your own), " +
        "then start the stack again, or on a hosted project run `supabase secrets set`",
      { setting: "FIRECRAWL_API_KEY" },
    );
  }
  return { url: (url ?? "https://api.firecrawl.dev").replace(/\/+$/, ""), key };
}

/** What a page has of a schema. */
export async function scrape(service: Service, url: string, prompt: string, schema: object): Promise<Page> {
  const response = await post(service, {
    url,
    formats: [{ type: "json", prompt, schema }],
    onlyMainContent: true,
    parsers: [{ type: "pdf", maxPages: MAX_PAGES }],
    timeout: TIMEOUT_MS,
  });
  const answer = await readAnswer(response);
  if (!response.ok) throw failure(response, answer);
  const data = isObject(answer) && answer.success === true && isObject(answer.data) ? answer.data : null;
  if (data === null) throw upstream("answered something else than a page");
  const metadata = isObject(data.metadata) ? data.metadata : {};
  if (typeof metadata.statusCode === "number" && metadata.statusCode >= 400) {
    throw unprocessable(`the page answers with ${metadata.statusCode}`, {
      url,
      error: quoted(metadata.error),
    });
  }
  return {
    json: isObject(data.json) ? data.json : {},
    title: typeof metadata.title === "string" ? metadata.title : null,
    urls: [metadata.sourceURL, metadata.url].filter((each): each is string => typeof each === "string" && each !== ""),
  };
}

export function unprocessable(message: string, details: unknown): FunctionError {
  return new FunctionError(422, "unprocessable", message, details);
}

async function post(service: Service, body: object): Promise<Response> {
  const headers: Record<string, string> = {
    "Content-Type": "application/json",
  };
  if (service.key !== null) headers.Authorization = `Bearer ${service.key}`;
  try {
    return await fetch(`${service.url}/v2/scrape`, {
      method: "POST",
      headers,
      body: JSON.stringify(body),
      // The key is for this address only.
      redirect: "error",
      signal: AbortSignal.timeout(PATIENCE_MS),
    });
  } catch (error) {
    throw lost(error);
  }
}

async function readAnswer(response: Response): Promise<unknown> {
  const chunks: Uint8Array<ArrayBuffer>[] = [];
  let bytes = 0;
  try {
    for await (const chunk of response.body ?? []) {
      bytes += chunk.byteLength;
      if (bytes > MAX_ANSWER_BYTES) {
        throw upstream(`answered more than ${MAX_ANSWER_BYTES} bytes`);
      }
      chunks.push(chunk);
    }
  } catch (error) {
    throw error instanceof FunctionError ? error : lost(error);
  }
  try {
    return JSON.parse(await new Blob(chunks).text());
  } catch {
    if (response.ok) throw upstream("answered something else than JSON");
    return null;
  }
}

/** What an error of Firecrawl means for whoever called us. */
function failure(response: Response, answer: unknown): FunctionError {
  const said = isObject(answer) ? quoted(answer.error) : null;
  switch (response.status) {
    case 401:
    case 403:
      return upstream("refused FIRECRAWL_API_KEY; set one that is valid", said);
    case 402:
      return upstream(
        "has no credits left for FIRECRAWL_API_KEY; add some, or set another key",
        said,
      );
    case 408:
    case 504:
      return timeout(said);
    case 400:
    case 422:
      return unprocessable(`Firecrawl cannot read this page${said ? `: ${said}` : ""}`, { said });
    case 429: {
      const seconds = response.headers.get("Retry-After") ?? "";
      const headers = {
        "Retry-After": /^\d{1,5}$/.test(seconds) ? seconds : "60",
      };
      return new FunctionError(
        429,
        "rate_limited",
        "Firecrawl asks for a pause; try again later",
        { said },
        headers,
      );
    }
    default:
      return upstream(`failed with ${response.status}${said ? `: ${said}` : ""}`, said);
  }
}

function lost(error: unknown): FunctionError {
  if ((error as Error).name === "TimeoutError") return timeout(null);
  console.error(
    "import-environment: Firecrawl was not reached:",
    (error as Error).message,
  );
  return upstream(
    "cannot be reached; check FIRECRAWL_API_URL, and that it runs",
  );
}

function timeout(said: string | null): FunctionError {
  return new FunctionError(
    504,
    "timeout",
    "Firecrawl did not read the page in time; try again",
    { said },
  );
}

function upstream(what: string, said: string | null = null): FunctionError {
  return new FunctionError(502, "upstream_failed", `Firecrawl ${what}`, {
    said,
  });
}

function quoted(text: unknown): string | null {
  return typeof text === "string" && text !== "" ? text.slice(0, MAX_QUOTED).toWellFormed() : null;
}
