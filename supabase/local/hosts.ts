/** Which names this gateway answers to. */

/**
 * Whether a host name means this machine to every resolver.
 *
 * Any other name that leads here was pointed here by someone: a page of that name could then read what is meant for
 * the machine's own user (DNS rebinding).
 */
export function isLoopback(hostname: string): boolean {
  return ["127.0.0.1", "localhost", "[::1]"].includes(hostname.toLowerCase());
}

/** Refuse a request that was sent to another name; null lets it pass. */
export function refuseForeignHost(request: Request): Response | null {
  const { protocol, hostname } = new URL(request.url);
  const header = request.headers.get("host"); // absent where a function calls its own project
  const named = header === null ? hostname : URL.parse(`${protocol}//${header}`)?.hostname ?? "";
  if (isLoopback(hostname) && isLoopback(named)) return null;
  const message = "This stack answers to 127.0.0.1 and localhost only; open it under one of these names\n";
  return new Response(message, { status: 421, headers: { "Content-Type": "text/plain; charset=utf-8" } });
}
