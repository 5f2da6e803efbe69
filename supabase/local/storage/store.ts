/**
 * Where the contents of objects are kept: one immutable content a version.
 *
 * A row of `storage.objects` names its version, and a version is complete before a row names it. An overwrite is
 * another version, so that readers see the old content or the new one, and a crash leaves no row with half of one.
 */
import { createHash } from "node:crypto";
import { tooLarge } from "./errors.ts";

export interface Written {
  size: number;
  /** Quoted, as in an ETag header: the MD5 of the content, however it was sent. */
  eTag: string;
}

export interface ObjectStore {
  /** Where contents are, as the database remembers it. */
  readonly location: string;
  /** Check that the place can be used, and say which setting is wrong if it cannot. */
  prepare(): Promise<void>;
  /** Write a version from a stream; beyond the limit it is abandoned, and nothing stays. */
  write(version: string, body: AsyncIterable<Uint8Array>, maxBytes: number | null): Promise<Written>;
  /** Give the content of a version another one. */
  copy(version: string, copied: string): Promise<void>;
  /** Read a part of a version. */
  read(version: string, start: number, length: number): Promise<ReadableStream<Uint8Array>>;
  /** Remove versions; one already gone is no error. Some may have been written in part only. */
  remove(versions: string[], unfinished: boolean): Promise<void>;
}

/** A stream that is counted and digested as it passes, and ends with an error at its limit. */
export class Measured implements AsyncIterable<Uint8Array> {
  readonly #hash = createHash("md5");
  #size = 0;

  constructor(readonly body: AsyncIterable<Uint8Array>, readonly maxBytes: number | null) {}

  async *[Symbol.asyncIterator](): AsyncGenerator<Uint8Array> {
    for await (const chunk of this.body) {
      this.#size += chunk.byteLength;
      if (this.maxBytes !== null && this.#size > this.maxBytes) throw tooLarge();
      this.#hash.update(chunk);
      yield chunk;
    }
  }

  /** What has passed, once all of it has. */
  get written(): Written {
    return { size: this.#size, eTag: `"${this.#hash.digest("hex")}"` };
  }
}

const VERSION = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

export function isVersion(text: string): boolean {
  return VERSION.test(text);
}

/** A version comes from the database; whatever it says, it must not name anything else. */
export function checkVersion(version: string): string {
  if (!isVersion(version)) throw new VersionMissing(version);
  return version;
}

export class VersionMissing extends Error {
  constructor(version: string) {
    super(`there is no content of version ${JSON.stringify(version)}`);
  }
}

/** The place cannot be used now; what was asked may be tried again. */
export class StoreUnavailable extends Error {}
