/** The sockets on which postgres.js reaches Postgres: TCP, TLS or a Unix socket, to a server that proves itself. */
import type { Buffer } from "node:buffer";
import net from "node:net";
import { Duplex } from "node:stream";
import tls from "node:tls";
import { Handshake, unproven } from "./scram.ts";

/** libpq's `sslmode`; what it leaves open (`allow`, `prefer`) was found out by whoever started us. */
export const TLS_MODES = ["disable", "require", "verify-ca", "verify-full"] as const;
export type TlsMode = typeof TLS_MODES[number];

export interface DatabaseAddress {
  url: string;
  /** The path of a Unix socket, which then counts instead of the host and port of the URL. */
  socketPath: string | null;
  tls: TlsMode;
  /** The certificates to trust, as PEM; null stands for those of the system. */
  authorities: string | null;
  /** Whether the server must prove with SCRAM that it knows the password. */
  scramOnly: boolean;
}

/** What postgres.js is told, whose types leave `socket` out. What is written to a socket waits until it is connected. */
export function dialling(address: DatabaseAddress): object {
  return {
    // postgres.js takes the name from the URL as it is encoded there.
    database: decodeURIComponent(new URL(address.url).pathname.slice(1)),
    socket({ host, port }: { host: string[]; port: number[] }): net.Socket | Duplex {
      if (address.tls !== "disable" && !address.socketPath) return new SecureSocket(address, host[0], port[0]);
      const socket = new PlainSocket(address.scramOnly);
      return address.socketPath ? socket.connect(address.socketPath) : socket.connect(port[0], host[0]);
    },
  };
}

class PlainSocket extends net.Socket {
  readonly #handshake = new Handshake();

  constructor(readonly scramOnly: boolean) {
    super();
  }

  // deno-lint-ignore no-explicit-any
  override emit(event: string | symbol, ...parts: any[]): boolean {
    const isProof = event === "data" && this.scramOnly && !this.#handshake.done;
    if (isProof && !this.#handshake.accepts(parts[0] as Buffer)) {
      this.destroy(unproven());
      return false;
    }
    return super.emit(event, ...parts);
  }
}

const SSL_REQUEST = new Uint8Array([0, 0, 0, 8, 4, 210, 22, 47]);
const ACCEPTED = 0x53; // S

/**
 * A connection that is plain until the server agrees to TLS.
 *
 * postgres.js could do this itself, but then nothing would see what the server says inside TLS, which without a checked
 * certificate may be anybody's.
 */
class SecureSocket extends Duplex {
  readonly #handshake = new Handshake();
  #inner: net.Socket;
  #isSecure = false;
  #send: (() => void) | undefined;

  constructor(readonly address: DatabaseAddress, readonly host: string, port: number) {
    super();
    this.#inner = net.connect(port, host);
    this.#inner.on("error", (error) => this.destroy(error));
    this.#inner.on("close", () => this.destroy());
    this.#inner.once("connect", () => this.#inner.write(SSL_REQUEST));
    this.#inner.once("data", (answer: Buffer) => this.#secure(answer));
  }

  /** postgres.js says goodbye to an open socket only. */
  get readyState(): string {
    return this.#isSecure && !this.destroyed ? "open" : "opening";
  }

  setKeepAlive(enable: boolean, delay: number): void {
    this.#inner.setKeepAlive(enable, delay);
  }

  #secure(answer: Buffer): void {
    // More than one byte would be what somebody in between wants us to take for the server's words inside TLS.
    if (answer.length !== 1 || answer[0] !== ACCEPTED) {
      this.destroy(Object.assign(new Error("the database server does not offer TLS"), { code: "CONNECTION_CLOSED" }));
      return;
    }
    this.#inner.removeAllListeners();
    const { tls: mode, authorities } = this.address;
    const secure = tls.connect({
      socket: this.#inner,
      host: this.host,
      ...(net.isIP(this.host) ? {} : { servername: this.host }),
      ...(authorities ? { ca: authorities } : {}),
      ...(mode === "require" ? { rejectUnauthorized: false } : {}),
      ...(mode === "verify-ca" ? { checkServerIdentity: () => undefined } : {}),
    });
    secure.on("error", (error) => this.destroy(error));
    secure.on("close", () => this.destroy());
    secure.on("data", (chunk: Buffer) => this.#receive(chunk));
    secure.on("end", () => this.push(null));
    secure.once("secureConnect", () => {
      this.#inner = secure;
      this.#isSecure = true;
      this.#send?.();
    });
  }

  #receive(chunk: Buffer): void {
    if (this.address.scramOnly && !this.#handshake.done && !this.#handshake.accepts(chunk)) {
      this.destroy(unproven());
    } else if (!this.push(chunk)) {
      this.#inner.pause();
    }
  }

  override _read(): void {
    if (this.#isSecure) this.#inner.resume();
  }

  override _write(chunk: Buffer, _encoding: string, done: (error?: Error | null) => void): void {
    this.#send = () => this.#inner.write(chunk, done);
    if (this.#isSecure) this.#send();
  }

  override _final(done: (error?: Error | null) => void): void {
    this.#inner.end(() => done());
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    this.#inner.destroy();
    done(error);
  }
}
