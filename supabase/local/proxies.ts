/** Who asks when a proxy stands between: what the proxies that are trusted say of their clients. */
import { BlockList, isIP } from "node:net";

const LOOPBACK = ["127.0.0.0/8", "::1"];
/** Where a proxy on this machine asks from. */
const OWN_PROXIES = ["127.0.0.1", "::1"];
const FORWARDED = ["x-forwarded-for", "forwarded", "x-real-ip", "via"];
const MOST_HOPS = 32;

export class Proxies {
  readonly #trusted = new BlockList();
  readonly #loopback = networks(LOOPBACK);

  /** Addresses and networks (`10.0.0.0/8`) of proxies beside those of this machine; null trusts none at all. */
  constructor(trusted: string[] | null) {
    if (trusted) this.#trusted = networks([...OWN_PROXIES, ...trusted]);
  }

  /**
   * The address of whoever sent a request.
   *
   * Every proxy appends the address it was asked from to `X-Forwarded-For`, so that the header is read from its end:
   * what stands before the first address that is not of a trusted proxy was written by a stranger.
   */
  clientOf(headers: Headers, peer: string): string {
    let client = plain(peer);
    if (!contains(this.#trusted, client)) return client;
    const hops = (headers.get("x-forwarded-for") ?? "").split(",").map(addressOf).slice(-MOST_HOPS);
    for (const hop of hops.reverse()) {
      if (hop === null) break;
      client = hop;
      if (!contains(this.#trusted, client)) break;
    }
    return client;
  }

  /** Whether a request comes from this machine itself, and not through a proxy on it. */
  isLocal(headers: Headers, peer: string): boolean {
    return contains(this.#loopback, plain(peer)) && !FORWARDED.some((name) => headers.has(name));
  }
}

/** What somebody who may choose addresses cannot leave: a site of IPv6 has all that begin like its own. */
export function siteOf(address: string): string {
  if (isIP(address) !== 6) return address;
  const [head, tail] = address.split("%")[0].split("::").map((part) => part.split(":").filter(Boolean));
  const groups = tail === undefined ? head : [...head, ...Array(8 - head.length - tail.length).fill("0"), ...tail];
  return `${groups.slice(0, 4).map((group) => parseInt(group, 16).toString(16)).join(":")}::/64`;
}

/** Check an address or network as somebody wrote it. */
export function isNetwork(text: string): boolean {
  const [address, bits, more] = text.split("/");
  const most = { 4: 32, 6: 128 }[isIP(address)];
  return most !== undefined && more === undefined &&
    (bits === undefined || /^\d{1,3}$/.test(bits) && Number(bits) <= most);
}

function networks(texts: string[]): BlockList {
  const list = new BlockList();
  for (const text of texts) {
    const [address, bits] = text.split("/");
    const family = isIP(address) === 6 ? "ipv6" : "ipv4";
    list.addSubnet(address, Number(bits ?? (family === "ipv6" ? 128 : 32)), family);
  }
  return list;
}

function contains(list: BlockList, address: string): boolean {
  const version = isIP(address);
  return version !== 0 && list.check(address, version === 6 ? "ipv6" : "ipv4");
}

/** `1.2.3.4`, `1.2.3.4:567`, `2001:db8::1` or `[2001:db8::1]:567`; null is no address. */
function addressOf(text: string): string | null {
  const found = /^\s*(?:\[([^\]]+)\](?::\d+)?|(\d+\.\d+\.\d+\.\d+)(?::\d+)?|([^[\]]+?))\s*$/.exec(text);
  const address = plain(found?.[1] ?? found?.[2] ?? found?.[3] ?? "");
  return isIP(address) ? address : null;
}

/** An IPv4 address is written one way, also where a socket of IPv6 names it. */
function plain(address: string): string {
  return /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address)?.[1] ?? address;
}
