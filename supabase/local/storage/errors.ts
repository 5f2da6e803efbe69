/** Storage's errors; on hosted projects the real status stands in the body, and HTTP says 400. */

export class StorageError extends Error {
  constructor(readonly statusCode: number, readonly error: string, message: string) {
    super(message);
    this.name = "StorageError";
  }

  toResponse(): Response {
    const status = this.statusCode === 401 || this.statusCode >= 500 ? this.statusCode : 400;
    const body = { statusCode: String(this.statusCode), error: this.error, message: this.message };
    return Response.json(body, { status });
  }
}

export const bucketNotFound = () => new StorageError(404, "Bucket not found", "Bucket not found");
export const bucketNotEmpty = () =>
  new StorageError(409, "InvalidRequest", "The bucket you tried to delete is not empty");
export const objectNotFound = () => new StorageError(404, "not_found", "Object not found");
export const alreadyExists = () => new StorageError(409, "Duplicate", "The resource already exists");
export const invalidKey = (key: string) => new StorageError(400, "InvalidKey", `Invalid key: ${key}`);
export const invalidRequest = (message: string) => new StorageError(400, "InvalidRequest", message);
export const invalidToken = (message: string) => new StorageError(400, "InvalidJWT", message);
export const accessDenied = () => new StorageError(403, "Unauthorized", "new row violates row-level security policy");
export const tooLarge = () =>
  new StorageError(413, "Payload too large", "The object exceeded the maximum allowed size");
export const mimeTypeRefused = (type: string) =>
  new StorageError(415, "invalid_mime_type", `mime type ${type} is not supported`);

export const diskFull = () => new StorageError(507, "InsufficientStorage", "The disk is full; nothing was stored");

/** A database error as Storage tells it, or the error itself when it is ours to look into. */
export function fromDatabase(error: unknown): unknown {
  switch ((error as { code?: string } | null)?.code) {
    case "42501":
      return accessDenied();
    case "23505":
      return alreadyExists();
    case "23503":
      return bucketNotFound();
    default:
      return error;
  }
}
