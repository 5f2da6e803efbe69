/**
 * Where a URL leads: checked at every redirect, so that nobody makes the server fetch from its own network.
 *
 * A name is resolved once, all of its addresses must be public, and the connection goes to one of them: a name server
 * that answers something else the second time is not asked a second time.
 */
import { FunctionError, invalid } from "../_shared/errors.ts";
import { isPublic } from "./addresses.ts";

const MAX_REDIRECTS = 5;
const MAX_HEAD_BYTES = 64 * 1024;
const TIMEOUT_MS = 10_000;
const PORTS: Record<string, number> = { "http:": 80, "https:": 443 };
const PRIVATE_NAMES = /(^|\.)(localhost|local|internal|intranet|lan|home|corp|arpa|onion|test|invalid)$/;

/** How the network is asked; tests give their own, whose names lead to a server on this machine. */
export interface Network {
  resolve(name: string): Promise<string[]>;
  /** An open connection; with TLS for the name, if it is given. */
  connect(
    address: string,
    port: number,
    tlsName: string | null,
  ): Promise<Deno.Conn>;
}

export const INTERNET: Network = {
  async resolve(name) {
    const answers = await Promise.allSettled([
      Deno.resolveDns(name, "A"),
      Deno.resolveDns(name, "AAAA"),
    ]);
    return answers.flatMap((answer) => (answer.status === "fulfilled" ? answer.value : []));
  },
  async connect(address, port, tlsName) {
    const plain = await Deno.connect({ hostname: address, port });
    return tlsName === null ? plain : await Deno.startTls(plain, { hostname: tlsName });
  },
};

/** The last URL that this one is redirected to; 400 where one of them is not of the public internet. */
export async function followed(url: string, network: Network): Promise<string> {
  let here = checkedUrl(url);
  for (let redirects = 0; redirects <= MAX_REDIRECTS; redirects++) {
    const location = await redirectOf(here, network);
    if (location === null) return here.href;
    here = checkedUrl(location);
  }
  throw refused(`it is redirected more than ${MAX_REDIRECTS} times`);
}

/** The addresses of a URL's host; 400 unless all of them are public. */
export async function publicAddresses(url: URL, network: Network): Promise<string[]> {
  const host = url.hostname.replace(/^\[|\]$/g, "").replace(/\.$/, "");
  const isAddress = url.hostname.startsWith("[") || /^[\d.]+$/.test(host);
  if (!isAddress && (!host.includes(".") || PRIVATE_NAMES.test(host))) {
    throw refused(`${host} is not a name of the public internet`);
  }
  const addresses = isAddress ? [host] : await network.resolve(host);
  if (addresses.length === 0) {
    throw refused(`${host} has no address; check the name`);
  }
  if (!addresses.every(isPublic)) {
    throw refused(`${host} does not lead to the public internet`);
  }
  return addresses;
}

/** The URL, if it may be fetched as far as can be told without asking the network. */
export function checkedUrl(text: string): URL {
  let url: URL;
  try {
    url = new URL(text);
  } catch {
    throw refused("it is not a URL such as https://arxiv.org/abs/1706.03762");
  }
  if (!(url.protocol in PORTS)) {
    throw refused("only http and https are possible");
  }
  if (url.username || url.password) {
    throw refused("it must not contain a user or password");
  }
  if (url.port !== "") {
    throw refused("only the usual ports, 80 and 443, are possible");
  }
  url.hash = "";
  return url;
}

async function redirectOf(url: URL, network: Network): Promise<string | null> {
  const [address] = await publicAddresses(url, network);
  const { status, location } = await withinTime(
    ask(url, address!, network),
    url,
  );
  if (![301, 302, 303, 307, 308].includes(status) || !location) return null;
  return URL.canParse(location, url) ? new URL(location, url).href : location;
}

async function ask(
  url: URL,
  address: string,
  network: Network,
): Promise<{ status: number; location: string | null }> {
  const isSecure = url.protocol === "https:";
  const connection = await network.connect(address, PORTS[url.protocol]!, isSecure ? url.hostname : null);
  const close = once(() => connection.close());
  // Whoever waits for the answer is told so before this; a connection that nobody reads is not kept open.
  const timer = setTimeout(close, TIMEOUT_MS);
  try {
    const request = `GET ${url.pathname}${url.search} HTTP/1.1\r\nHost: ${url.host}\r\n` +
      "User-Agent: openmanus-rl\r\nAccept: text/html,application/pdf,*/*\r\nConnection: close\r\n\r\n";
    await writeAll(connection, new TextEncoder().encode(request));
    return headOf(await readHead(connection));
  } finally {
    clearTimeout(timer);
    close();
  }
}

function once(action: () => void): () => void {
  let isDone = false;
  return () => {
    if (!isDone) action();
    isDone = true;
  };
}

async function writeAll(connection: Deno.Conn, bytes: Uint8Array): Promise<void> {
  for (let written = 0; written < bytes.length;) {
    written += await connection.write(bytes.subarray(written));
  }
}

/** The beginning of an answer, up to its body. */
async function readHead(connection: Deno.Conn): Promise<string> {
  const buffer = new Uint8Array(16 * 1024);
  let text = "";
  while (!text.includes("\r\n\r\n") && text.length < MAX_HEAD_BYTES) {
    const count = await connection.read(buffer);
    if (count === null) break;
    text += String.fromCharCode(...buffer.subarray(0, count));
  }
  return text.split("\r\n\r\n")[0]!;
}

function headOf(text: string): { status: number; location: string | null } {
  const status = /^HTTP\/1\.[01] (\d{3})/.exec(text);
  if (status === null) throw new Error("the answer is not HTTP");
  const location = /^location:[ \t]*(.*?)[ \t]*$/im.exec(text);
  return { status: Number(status[1]), location: location?.[1] || null };
}

async function withinTime<T>(work: Promise<T>, url: URL): Promise<T> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const limit = new Promise<never>((_, reject) => {
    timer = setTimeout(
      () => reject(new Error(`no answer within ${TIMEOUT_MS / 1000} s`)),
      TIMEOUT_MS,
    );
  });
  try {
    return await Promise.race([work, limit]);
  } catch (error) {
    if (error instanceof FunctionError) throw error;
    throw refused(`${url.host} cannot be reached: ${(error as Error).message}`);
  } finally {
    clearTimeout(timer);
  }
}

function refused(reason: string): FunctionError {
  return invalid(`url: ${reason}`, { field: "url" });
}
