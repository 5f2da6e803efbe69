/** Storage's errors; on hosted projects the real status stands in the body, and HTTP says 400. */

export class StorageError extends Error {
  constructor(
    readonly statusCode: number,
    readonly error: string,
    message: string,
    /** What supabase-js tells errors apart by. */
    readonly code: string = error,
  ) {
    super(message);
    this.name = "StorageError";
  }

  get body() {
    return { statusCode: String(this.statusCode), code: this.code, error: this.error, message: this.message };
  }

  toResponse(): Response {
    const plain = this.statusCode === 401 || this.statusCode >= 500;
    return Response.json(this.body, { status: plain ? this.statusCode : 400 });
  }
}

/** What is told before Storage looks at a request closer has its status in HTTP as well. */
export class RoutingError extends StorageError {
  override toResponse(): Response {
    return Response.json(this.body, { status: this.statusCode });
  }
}

export const routeNotFound = (method: string, path: string) =>
  new RoutingError(404, "Not Found", `Route ${method}:${path} not found`, "InvalidRequest");
/** As of a hosted project whose plan has no image transformation. */
export const featureNotEnabled = () =>
  new RoutingError(403, "FeatureNotEnabled", "feature not enabled for this tenant");

export const bucketNotFound = () => new StorageError(404, "Bucket not found", "Bucket not found", "NoSuchBucket");
export const bucketNotEmpty = () =>
  new StorageError(409, "ResourceNotEmpty", "The bucket you tried to delete is not empty");
export const objectNotFound = () => new StorageError(404, "not_found", "Object not found", "NoSuchKey");
/** Machines that share a database do not share a folder of files. */
export const contentNotHere = () =>
  new StorageError(
    404,
    "not_found",
    "The content of this object is not on this machine: it was uploaded on another one, or its file was removed",
    "NoSuchKey",
  );
export const alreadyExists = () =>
  new StorageError(409, "Duplicate", "The resource already exists", "ResourceAlreadyExists");
export const invalidKey = (key: string) => new StorageError(400, "InvalidKey", `Invalid key: ${key}`);
export const invalidRequest = (message: string) => new StorageError(400, "InvalidRequest", message);
export const invalidToken = (message: string) => new StorageError(400, "InvalidJWT", message);
export const accessDenied = (message = "new row violates row-level security policy") =>
  new StorageError(403, "Unauthorized", message, "AccessDenied");
export const tooLarge = () =>
  new StorageError(413, "Payload too large", "The object exceeded the maximum allowed size", "EntityTooLarge");
export const mimeTypeRefused = (type: string) =>
  new StorageError(415, "invalid_mime_type", `mime type ${type} is not supported`, "InvalidMimeType");

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
    case "22021":
      return invalidRequest("A name has a NUL character, which Postgres cannot keep");
    default:
      return error;
  }
}
