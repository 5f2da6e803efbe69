/** Requests to S3 and what is compatible with it: signed, tried again, and with their errors told apart. */
import { AwsV4Signer } from "aws4fetch";
import { StoreUnavailable } from "./store.ts";

const ATTEMPTS = 4;
const FIRST_PAUSE_MS = 100;
/** How long an answer may take to begin; what follows takes as long as it takes. Writing is slower than reading. */
const READ_TIMEOUT_MS = 30_000;
const WRITE_TIMEOUT_MS = 120_000;
const LEAST_BYTES_PER_MS = 50;
/** Taken before the gateway answers calls of its own URL itself. */
const fetchOutside = globalThis.fetch;

export interface S3Settings {
  bucket: string;
  /** Begins every key; empty, or ends in a slash. */
  prefix: string;
  endpoint: string;
  region: string;
  accessKeyId: string;
  secretAccessKey: string;
  sessionToken: string | null;
}

export interface S3Request {
  method: "GET" | "PUT" | "POST" | "DELETE";
  key?: string;
  query?: Record<string, string>;
  headers?: Record<string, string>;
  body?: Uint8Array<ArrayBuffer>;
}

/** A refusal by the server, with the code that S3 gives it. */
export class S3Refusal extends StoreUnavailable {
  constructor(readonly status: number, readonly code: string, message: string) {
    super(message);
  }
}

/** No answer at all. */
export class S3Silence extends StoreUnavailable {}

export class S3 {
  readonly #base: string;

  constructor(readonly settings: S3Settings) {
    this.#base = `${settings.endpoint.replace(/\/$/, "")}/${settings.bucket}`;
  }

  /** Send a request; whatever can be asked twice is, when the server is busy or the connection breaks. */
  async send(request: S3Request): Promise<Response> {
    for (let attempt = 1;; attempt++) {
      const last = attempt === ATTEMPTS || request.method === "POST";
      try {
        const response = await this.#attempt(request);
        if (response.ok) return response;
        const refusal = await readRefusal(response);
        if (last || (refusal.status < 500 && refusal.status !== 429)) throw refusal;
      } catch (error) {
        if (!(error instanceof S3Silence) || last) throw error;
      }
      await new Promise((resolve) => setTimeout(resolve, FIRST_PAUSE_MS * 4 ** (attempt - 1)));
    }
  }

  /** Send a request whose answer is XML; S3 may begin to answer with 200 and find an error later. */
  async ask(request: S3Request): Promise<string> {
    const response = await this.send(request);
    const text = await readText(response);
    if (/<Error>/.test(text)) throw refusalOf(response.status, text);
    return text;
  }

  /** Send a request whose answer has no content. */
  async tell(request: S3Request): Promise<Headers> {
    const response = await this.send(request);
    await response.body?.cancel();
    return response.headers;
  }

  async #attempt({ method, key, query, headers, body }: S3Request): Promise<Response> {
    const { settings } = this;
    const path = key === undefined ? "" : `/${settings.prefix}${key}`;
    const url = new URL(this.#base + path);
    for (const [name, value] of Object.entries(query ?? {})) url.searchParams.set(name, value);
    const signed = await new AwsV4Signer({
      method,
      url: url.href,
      // With its digest signed, the server refuses a body that arrives changed.
      headers: { ...headers, "accept-encoding": "identity", "x-amz-content-sha256": await sha256(body) },
      body,
      accessKeyId: settings.accessKeyId,
      secretAccessKey: settings.secretAccessKey,
      sessionToken: settings.sessionToken ?? undefined,
      service: "s3",
      region: settings.region,
    }).sign();
    const silence = new AbortController();
    const timer = setTimeout(() => silence.abort(new Error("no answer in time")), timeoutMs(method, body));
    try {
      return await fetchOutside(signed.url, { method, headers: signed.headers, body, signal: silence.signal });
    } catch (error) {
      throw new S3Silence((error as Error).message, { cause: error });
    } finally {
      clearTimeout(timer);
    }
  }
}

/** The content of an element of an answer; S3's have no attributes, and nothing below these elements. */
export function elements(xml: string, name: string): string[] {
  return [...xml.matchAll(new RegExp(`<${name}>([^<]*)</${name}>`, "g"))].map(([, text]) => unescapeXml(text));
}

function timeoutMs(method: string, body: Uint8Array | undefined): number {
  if (method === "GET" || method === "DELETE") return READ_TIMEOUT_MS;
  return WRITE_TIMEOUT_MS + (body?.byteLength ?? 0) / LEAST_BYTES_PER_MS;
}

async function readRefusal(response: Response): Promise<S3Refusal> {
  return refusalOf(response.status, await readText(response));
}

function refusalOf(status: number, xml: string): S3Refusal {
  const [code = `HTTP ${status}`] = elements(xml, "Code");
  const [message = "no reason was given"] = elements(xml, "Message");
  return new S3Refusal(status, code, message);
}

async function readText(response: Response): Promise<string> {
  try {
    return await response.text();
  } catch (error) {
    throw new S3Silence((error as Error).message, { cause: error });
  }
}

async function sha256(body: Uint8Array<ArrayBuffer> | undefined): Promise<string> {
  return new Uint8Array(await crypto.subtle.digest("SHA-256", body ?? new Uint8Array())).toHex();
}

function unescapeXml(text: string): string {
  const names: Record<string, string> = { amp: "&", lt: "<", gt: ">", quot: '"', apos: "'", "#34": '"', "#39": "'" };
  return text.replace(/&(#?\w+);/g, (whole, name) => names[name] ?? whole);
}
