/** Object contents in a folder: one file a version, complete before it has its name. */
import { checkVersion, Measured, type ObjectStore, VersionMissing, type Written } from "./store.ts";

const TEMPORARY = ".uploading";
const CHUNK_BYTES = 256 * 1024;

export class FileStore implements ObjectStore {
  /** Not the path: a home may be moved. */
  readonly location = "folder";

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

  async write(version: string, body: AsyncIterable<Uint8Array>, maxBytes: number | null): Promise<Written> {
    const path = await this.#newPath(version);
    const temporary = path + TEMPORARY;
    try {
      const written = await writeFile(temporary, body, maxBytes);
      await Deno.rename(temporary, path);
      await this.#syncFolder(version);
      return written;
    } catch (error) {
      await removeIfThere(temporary);
      throw error;
    }
  }

  /** A second name for the same content: versions never change, so they may share it. */
  async copy(version: string, copied: string): Promise<void> {
    try {
      await Deno.link(this.#path(version), await this.#newPath(copied));
    } catch (error) {
      throw error instanceof Deno.errors.NotFound ? new VersionMissing(version) : error;
    }
    await this.#syncFolder(copied);
  }

  async read(version: string, start: number, length: number): Promise<ReadableStream<Uint8Array>> {
    let file: Deno.FsFile;
    try {
      file = await Deno.open(this.#path(version), { read: true });
    } catch (error) {
      throw error instanceof Deno.errors.NotFound ? new VersionMissing(version) : error;
    }
    if (start > 0) await file.seek(start, Deno.SeekMode.Start);
    return streamOf(file, length);
  }

  async remove(versions: string[], unfinished: boolean): Promise<void> {
    for (const version of versions) {
      await removeIfThere(this.#path(version));
      if (unfinished) await removeIfThere(this.#path(version) + TEMPORARY);
    }
  }

  #folder(version: string): string {
    return `${this.directory}/${checkVersion(version).slice(0, 2)}`;
  }

  #path(version: string): string {
    return `${this.#folder(version)}/${version}`;
  }

  async #newPath(version: string): Promise<string> {
    await Deno.mkdir(this.#folder(version), { recursive: true, mode: 0o700 });
    return this.#path(version);
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

async function writeFile(path: string, body: AsyncIterable<Uint8Array>, maxBytes: number | null): Promise<Written> {
  const file = await Deno.open(path, { write: true, createNew: true, mode: 0o600 });
  const measured = new Measured(body, maxBytes);
  try {
    for await (const chunk of measured) {
      for (let done = 0; done < chunk.byteLength;) done += await file.write(chunk.subarray(done));
    }
    await file.sync();
  } finally {
    file.close();
  }
  return measured.written;
}

function streamOf(file: Deno.FsFile, length: number): ReadableStream<Uint8Array> {
  let left = length;
  return new ReadableStream({
    async pull(controller) {
      const buffer = new Uint8Array(Math.min(CHUNK_BYTES, left));
      const read = left === 0 ? null : await file.read(buffer);
      if (read === null) {
        file.close();
        controller.close();
        return;
      }
      left -= read;
      controller.enqueue(buffer.subarray(0, read));
    },
    cancel() {
      file.close();
    },
  }, { highWaterMark: 0 });
}

async function removeIfThere(path: string): Promise<void> {
  try {
    await Deno.remove(path);
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
}
