/** Object contents in a bucket of S3 or of what is compatible with it: one object a version. */
import { tooLarge } from "./errors.ts";
import { elements, S3, S3Refusal, type S3Settings, S3Silence } from "./s3.ts";
import { checkVersion, Measured, type ObjectStore, StoreUnavailable, VersionMissing, type Written } from "./store.ts";

/** As much of an upload as is held in memory; S3 takes no smaller parts than 5 MiB, and 10,000 of them. */
const PART_BYTES = 8 * 2 ** 20;
const MAX_PARTS = 10_000;
const REMOVED_AT_ONCE = 8;
/** Written and removed at the start, to learn then whether that is allowed. */
const PROBE_KEY = "openmanus-rl-write-check";

type Bytes = Uint8Array<ArrayBuffer>;

export class S3Store implements ObjectStore {
  readonly location: string;
  readonly #s3: S3;

  constructor(readonly settings: S3Settings) {
    this.location = `s3://${settings.bucket}/${settings.prefix}`.replace(/\/$/, "");
    this.#s3 = new S3(settings);
  }

  async prepare(): Promise<void> {
    try {
      await this.#s3.ask({ method: "GET", query: { "list-type": "2", "max-keys": "1", prefix: this.settings.prefix } });
      await this.#s3.tell({ method: "PUT", key: PROBE_KEY, body: new Uint8Array() });
      await this.#s3.tell({ method: "DELETE", key: PROBE_KEY });
    } catch (error) {
      throw new Error(diagnosis(error, this.settings), { cause: error });
    }
  }

  async write(version: string, body: AsyncIterable<Uint8Array>, maxBytes: number | null): Promise<Written> {
    const measured = new Measured(body, maxBytes);
    const upload = new PartedUpload(this.#s3, checkVersion(version));
    try {
      for await (const { bytes, isLast } of inParts(measured)) await upload.add(bytes, isLast);
    } catch (error) {
      await upload.abort();
      throw error;
    }
    return measured.written;
  }

  async copy(version: string, copied: string): Promise<void> {
    const source = `/${this.settings.bucket}/${this.settings.prefix}${checkVersion(version)}`;
    const headers = { "x-amz-copy-source": encodeURI(source) };
    try {
      await this.#s3.ask({ method: "PUT", key: checkVersion(copied), headers });
    } catch (error) {
      throw isMissing(error) ? new VersionMissing(version) : error;
    }
  }

  async read(version: string, start: number, length: number): Promise<ReadableStream<Uint8Array>> {
    const key = checkVersion(version);
    if (length === 0) return new Blob([]).stream();
    const headers = { range: `bytes=${start}-${start + length - 1}` };
    try {
      const response = await this.#s3.send({ method: "GET", key, headers });
      if (response.headers.get("content-length") === String(length)) return response.body!;
      await response.body?.cancel();
      throw new StoreUnavailable(`S3 answered ${headers.range} of version ${version} with another length`);
    } catch (error) {
      throw isMissing(error) ? new VersionMissing(version) : error;
    }
  }

  async remove(versions: string[], unfinished: boolean): Promise<void> {
    for (let at = 0; at < versions.length; at += REMOVED_AT_ONCE) {
      await Promise.all(
        versions.slice(at, at + REMOVED_AT_ONCE).map(async (version) => {
          if (unfinished) await this.#abortUploads(version);
          try {
            await this.#s3.tell({ method: "DELETE", key: checkVersion(version) });
          } catch (error) {
            if (!isMissing(error)) throw error;
          }
        }),
      );
    }
  }

  /** End the uploads of a version that whoever began them cannot end any more. */
  async #abortUploads(version: string): Promise<void> {
    const prefix = this.settings.prefix + checkVersion(version);
    const listed = await this.#s3.ask({ method: "GET", query: { uploads: "", prefix } });
    for (const uploadId of elements(listed, "UploadId")) {
      await this.#s3.tell({ method: "DELETE", key: version, query: { uploadId } });
    }
  }
}

/** An upload in parts, or in one request when there is one part only. */
class PartedUpload {
  #uploadId: string | null = null;
  readonly #tags: string[] = [];

  constructor(readonly s3: S3, readonly key: string) {}

  async add(body: Bytes, isLast: boolean): Promise<void> {
    const { s3, key } = this;
    if (isLast && this.#uploadId === null) {
      await s3.tell({ method: "PUT", key, body });
      return;
    }
    const partNumber = this.#tags.length + 1;
    if (partNumber > MAX_PARTS) throw tooLarge();
    this.#uploadId ??= elements(await s3.ask({ method: "POST", key, query: { uploads: "" } }), "UploadId")[0];
    const query = { partNumber: String(partNumber), uploadId: this.#uploadId };
    this.#tags.push((await s3.tell({ method: "PUT", key, query, body })).get("etag") ?? "");
    if (isLast) await this.#complete(this.#uploadId);
  }

  async #complete(uploadId: string): Promise<void> {
    const parts = this.#tags.map((tag, i) =>
      `<Part><PartNumber>${i + 1}</PartNumber><ETag>${tag.replaceAll('"', "&quot;")}</ETag></Part>`
    );
    const xml = `<CompleteMultipartUpload>${parts.join("")}</CompleteMultipartUpload>`;
    const headers = { "content-type": "application/xml" };
    const body = new TextEncoder().encode(xml);
    await this.s3.ask({ method: "POST", key: this.key, query: { uploadId }, headers, body });
  }

  /** Leave nothing behind; if even that fails, the sweep does it later. */
  async abort(): Promise<void> {
    if (this.#uploadId === null) return;
    try {
      await this.s3.tell({ method: "DELETE", key: this.key, query: { uploadId: this.#uploadId } });
    } catch (error) {
      if (!(error instanceof StoreUnavailable)) throw error;
    }
  }
}

/** A stream in parts of one size; the last may be smaller, and is the only one that may be empty. */
export async function* inParts(
  body: AsyncIterable<Uint8Array>,
  partBytes = PART_BYTES,
): AsyncGenerator<{ bytes: Bytes; isLast: boolean }> {
  // Small objects are many: their buffers grow as needed.
  let buffer: Bytes = new Uint8Array(Math.min(partBytes, 2 ** 16));
  let filled = 0;
  for await (const chunk of body) {
    for (let at = 0; at < chunk.byteLength;) {
      if (filled === partBytes) {
        yield { bytes: buffer, isLast: false };
        [buffer, filled] = [new Uint8Array(partBytes), 0];
      }
      const taken = Math.min(chunk.byteLength - at, partBytes - filled);
      if (filled + taken > buffer.byteLength) buffer = grown(buffer, Math.min(partBytes, 2 * (filled + taken)));
      buffer.set(chunk.subarray(at, at + taken), filled);
      [at, filled] = [at + taken, filled + taken];
    }
  }
  yield { bytes: buffer.subarray(0, filled), isLast: true };
}

function grown(buffer: Bytes, byteLength: number): Bytes {
  const larger = new Uint8Array(byteLength);
  larger.set(buffer);
  return larger;
}

function isMissing(error: unknown): boolean {
  return error instanceof S3Refusal && ["NoSuchKey", "NoSuchUpload", "HTTP 404"].includes(error.code);
}

/** Which setting is wrong, and what to do. */
function diagnosis(error: unknown, { bucket, endpoint, region, accessKeyId }: S3Settings): string {
  const where = `OPENMANUS_RL_STORAGE: bucket ${bucket} at ${endpoint}`;
  if (error instanceof S3Silence) {
    return `${where} cannot be reached (${error.message}); check AWS_ENDPOINT_URL_S3 and the network`;
  }
  if (!(error instanceof S3Refusal)) throw error;
  const { code, message } = error;
  switch (code) {
    case "NoSuchBucket":
      return `${where} does not exist; create it, or name another in OPENMANUS_RL_STORAGE`;
    case "InvalidAccessKeyId":
      return `${where} does not know the key ${accessKeyId}; correct AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY`;
    case "SignatureDoesNotMatch":
      return `${where} refuses the signature of key ${accessKeyId}; correct AWS_SECRET_ACCESS_KEY`;
    case "AuthorizationHeaderMalformed":
    case "PermanentRedirect":
    case "HTTP 301":
      return `${where} is not in region ${region} (${message}); correct AWS_REGION`;
    case "AccessDenied":
    case "HTTP 403":
      return `${where} denies key ${accessKeyId} to list, write or delete objects (${message}); allow it s3:ListBucket, ` +
        `s3:ListBucketMultipartUploads, s3:GetObject, s3:PutObject, s3:DeleteObject and s3:AbortMultipartUpload`;
    default:
      return `${where} cannot be used: ${code}: ${message}`;
  }
}
