/** Which names this gateway answers to, and under which of them it is known. */
import { currentClient } from "./client.ts";

/**
 * Whether a host name means this machine to every resolver.
 *
 * Any other name that leads here was pointed here by someone: a page of that name could then read what is meant for
 * the machine's own user (DNS rebinding).
 */
export function isLoopback(hostname: string): boolean {
  return ["127.0.0.1", "localhost", "[::1]"].includes(hostname.toLowerCase());
}

export class Hosts {
  /** `publicUrl` is what people and other machines call this gateway, behind a proxy that speaks TLS. */
  constructor(readonly publicUrl: URL | null) {}

  /** Refuse a request that was sent to another name; null lets it pass. */
  refuse(request: Request): Response | null {
    const { hostname, host, protocol } = new URL(request.url);
    const header = request.headers.get("host"); // absent in HTTP/1.0, and in HTTP/2, where the URL has the name
    const named = header === null ? null : URL.parse(`${protocol}//${header}`);
    const isNamedSo = (means: (url: { hostname: string; host: string }) => boolean) =>
      means({ hostname, host }) && (header === null || named !== null && means(named));
    if (isNamedSo(({ hostname }) => isLoopback(hostname)) && this.#isFromHere()) return null;
    if (this.publicUrl && isNamedSo(({ host }) => this.#isPublic(host))) return null;
    return new Response(this.#explanation(), {
      status: 421,
      headers: { "Content-Type": "text/plain; charset=utf-8" },
    });
  }

  /** The origin under which the sender of a request knows this gateway. */
  originOf(request: Request): string {
    const { origin, host } = new URL(request.url);
    return this.publicUrl && this.#isPublic(host) ? this.publicUrl.origin : origin;
  }

  /** With the public name's port, or without one where it is the scheme's own: behind TLS the request says http. */
  #isPublic(host: string): boolean {
    const { host: own, hostname, port } = this.publicUrl!;
    return host === own || port === "" && (host === `${hostname}:443` || host === `${hostname}:80`);
  }

  /** Whoever comes through a proxy must use the public name, or its pages and links would lead to this machine. */
  #isFromHere(): boolean {
    return this.publicUrl === null || (currentClient.getStore()?.isLocal ?? true);
  }

  #explanation(): string {
    if (!this.publicUrl) {
      return "This stack answers to 127.0.0.1 and localhost only; open it under one of these names\n";
    }
    return `This server answers to ${this.publicUrl.host} only. If it is behind a proxy, the proxy must pass the Host ` +
      "header on: `proxy_set_header Host $host;` in nginx\n";
  }
}
