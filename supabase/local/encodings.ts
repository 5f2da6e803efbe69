/**
 * Compressed request bodies, which recorders send where a server says that it takes them (RFC 7694).
 *
 * Hosted projects do not say so, and are sent none.
 */

const ENCODING = "gzip";
const CALL = /^\/rest\/v1\/rpc\//;

/** Say in the answer to a call that requests may be compressed. */
export function announceEncodings(response: Response, pathname: string): Response {
  if (CALL.test(pathname)) response.headers.set("Accept-Encoding", ENCODING);
  return response;
}

/** How the body of a request is encoded: null if it is as it is, and undefined if we cannot read it. */
export function encodingOf(headers: Headers): typeof ENCODING | null | undefined {
  const given = (headers.get("content-encoding") ?? "").trim().toLowerCase();
  if (given === "" || given === "identity") return null;
  return given === ENCODING || given === "x-gzip" ? ENCODING : undefined;
}

/** The stream of a body as it was before it was compressed; it fails with a TypeError if it is not what it says. */
export function decompressed(body: ReadableStream<Uint8Array>): ReadableStream<Uint8Array> {
  return body.pipeThrough(new DecompressionStream(ENCODING) as ReadableWritablePair<Uint8Array, Uint8Array>);
}
