import { strictEqual } from "node:assert";
import { Handshake } from "./scram.ts";

function message(type: string, ...body: number[]): number[] {
  return [type.charCodeAt(0), 0, 0, 0, body.length + 4, ...body];
}

const authentication = (kind: number) => message("R", 0, 0, 0, kind);
const [OK, SASL, CONTINUE, FINAL] = [0, 10, 11, 12].map(authentication);
const ERROR = message("E", 0);
const READY = message("Z", 73);

function outcome(bytes: number[], step = bytes.length): string {
  const handshake = new Handshake();
  for (let i = 0; i < bytes.length; i += step) {
    if (!handshake.accepts(Uint8Array.from(bytes.slice(i, i + step)))) return "refused";
  }
  return handshake.done ? "done" : "open";
}

Deno.test("SCRAM in its order is let through, in whatever pieces it comes", () => {
  const exchange = [...SASL, ...CONTINUE, ...FINAL, ...OK, ...READY];
  for (const step of [1, 2, 5, 9, 13, exchange.length]) strictEqual(outcome(exchange, step), "done");
  strictEqual(outcome(ERROR), "open");
  strictEqual(outcome([...SASL, ...ERROR]), "open");
});

Deno.test("any other way in is refused", () => {
  const others = [
    OK,
    READY,
    FINAL,
    authentication(3),
    authentication(5),
    authentication(7),
    [...SASL, ...OK],
    [...SASL, ...FINAL],
    [...SASL, ...CONTINUE, ...OK],
    [...SASL, ...CONTINUE, ...authentication(3)],
    [...SASL, ...CONTINUE, ...FINAL, ...READY],
    [...SASL, ...SASL],
    message("S", 0, 0),
    message("R"),
    [0x52, 0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 10],
  ];
  for (const bytes of others) for (const step of [1, bytes.length]) strictEqual(outcome(bytes, step), "refused");
});
