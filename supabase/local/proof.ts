/**
 * Showing clients on this machine that this gateway, and nobody else, listens on its port.
 *
 * The answer is a digest of the client's random number under the secret key. It covers the port: passed on to a gateway
 * on another one, the question gets an answer that is of no use to whoever passed it on.
 */
const PATH = "/.well-known/openmanus-rl/proof";
const NONCE = /^[0-9a-f]{64}$/;

/** Answer a request for a proof; null when it is a request for something else. */
export async function prove(request: Request, secretKey: string, port: number): Promise<Response | null> {
  const url = new URL(request.url);
  if (url.pathname !== PATH) return null;
  const nonce = url.searchParams.get("nonce") ?? "";
  if (request.method !== "GET" || !NONCE.test(nonce)) {
    return Response.json({ message: "GET with a nonce of 64 hexadecimal digits" }, { status: 400 });
  }
  const body = JSON.stringify({ proof: await digest(secretKey, `openmanus-rl proof\n${port}\n${nonce}`) });
  return new Response(body, { headers: { "Content-Type": "application/json", "Cache-Control": "no-store" } });
}

async function digest(key: string, text: string): Promise<string> {
  const encoder = new TextEncoder();
  const algorithm = { name: "HMAC", hash: "SHA-256" };
  const imported = await crypto.subtle.importKey("raw", encoder.encode(key), algorithm, false, ["sign"]);
  return new Uint8Array(await crypto.subtle.sign("HMAC", imported, encoder.encode(text))).toHex();
}
