/**
 * Object contents on disk, one immutable file a version.
 *
 * A row names its version, and a version's file is complete before a row names it: an overwrite, a crash or a full
 * disk never leaves a row with half a file.
 */
import { createHash } from "node:crypto";
import { tooLarge } from "./errors.ts";

const TEMPORARY = ".uploading";
const VERSION = /^[0-9a-f-]{36}$/;

export interface WrittenFile {
  version: string;
  size: number;
  /** Quoted, as in an ETag header. */
  eTag: string;
}

export class FileStore {
  constructor(readonly directory: string) {}

  /** Make the directory and drop what interrupted uploads left. */
  async prepare(): Promise<void> {
    await Deno.mkdir(this.directory, { recursive: true, mode: 0o700 });
    for await (const folder of Deno.readDir(this.directory)) {
      if (!folder.isDirectory) continue;
      const path = `${this.directory}/${folder.name}`;
      for await (const file of Deno.readDir(path)) {
        if (file.name.endsWith(TEMPORARY)) await Deno.remove(`${path}/${file.name}`);
      }
    }
  }

  /** Write a new version from a stream; beyond the limit it is abandoned and nothing stays. */
  async write(body: AsyncIterable<Uint8Array>, maxBytes: number | null): Promise<WrittenFile> {
    const version = crypto.randomUUID();
    const path = this.#path(version);
    await Deno.mkdir(this.#folder(version), { recursive: true, mode: 0o700 });
    const temporary = path + TEMPORARY;
    try {
      const written = await writeFile(temporary, body, maxBytes);
      await Deno.rename(temporary, path);
      await this.#syncFolder(version);
      return { version, ...written };
    } catch (error) {
      await removeIfThere(temporary);
      throw error;
    }
  }

  /** A second name for the same content: versions never change, so they may share it. */
  async copy(version: string): Promise<string> {
    const copied = crypto.randomUUID();
    await Deno.mkdir(this.#folder(copied), { recursive: true, mode: 0o700 });
    await Deno.link(this.#path(version), this.#path(copied));
    await this.#syncFolder(copied);
    return copied;
  }

  open(version: string): Promise<Deno.FsFile> {
    return Deno.open(this.#path(version), { read: true });
  }

  /** Remove versions no row names any more; one already gone is no error. */
  async remove(versions: (string | null)[]): Promise<void> {
    for (const version of versions) {
      if (version) await removeIfThere(this.#path(version));
    }
  }

  #folder(version: string): string {
    // The version comes from the database; whatever it says, it must not name a file elsewhere.
    if (!VERSION.test(version)) throw new Deno.errors.NotFound(`no file of version ${JSON.stringify(version)}`);
    return `${this.directory}/${version.slice(0, 2)}`;
  }

  #path(version: string): string {
    return `${this.#folder(version)}/${version}`;
  }

  /** A rename is durable only once its folder is on disk too. */
  async #syncFolder(version: string): Promise<void> {
    const folder = await Deno.open(this.#folder(version), { read: true });
    try {
      await folder.sync();
    } finally {
      folder.close();
    }
  }
}

async function writeFile(path: string, body: AsyncIterable<Uint8Array>, maxBytes: number | null) {
  const file = await Deno.open(path, { write: true, createNew: true, mode: 0o600 });
  const hash = createHash("md5");
  let size = 0;
  try {
    for await (const chunk of body) {
      size += chunk.byteLength;
      if (maxBytes !== null && size > maxBytes) throw tooLarge();
      hash.update(chunk);
      for (let done = 0; done < chunk.byteLength;) done += await file.write(chunk.subarray(done));
    }
    await file.sync();
  } finally {
    file.close();
  }
  return { size, eTag: `"${hash.digest("hex")}"` };
}

async function removeIfThere(path: string): Promise<void> {
  try {
    await Deno.remove(path);
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
}
