import { strictEqual } from "node:assert";
import { isNetwork, Proxies, siteOf } from "./proxies.ts";

const headers = (forwarded: string) => new Headers({ "X-Forwarded-For": forwarded });

Deno.test("a stranger's own header says nothing", () => {
  strictEqual(new Proxies([]).clientOf(headers("1.1.1.1"), "203.0.113.9"), "203.0.113.9");
  strictEqual(new Proxies(null).clientOf(headers("1.1.1.1"), "127.0.0.1"), "127.0.0.1");
});

Deno.test("what a trusted proxy appended counts, and nothing before it", () => {
  const proxies = new Proxies(["10.0.0.0/8", "fd00::/8"]);
  const cases: [string, string, string][] = [
    ["203.0.113.9", "127.0.0.1", "203.0.113.9"],
    ["1.1.1.1, 203.0.113.9", "127.0.0.1", "203.0.113.9"],
    ["1.1.1.1, 203.0.113.9, 10.1.2.3", "10.4.5.6", "203.0.113.9"],
    ["127.0.0.1, 203.0.113.9", "::ffff:127.0.0.1", "203.0.113.9"],
    ["203.0.113.9:4711", "::1", "203.0.113.9"],
    ["[2001:db8::7]:4711", "fd00::2", "2001:db8::7"],
    ["2001:db8::7", "127.0.0.1", "2001:db8::7"],
    ["10.9.9.9", "127.0.0.1", "10.9.9.9"],
    ["", "127.0.0.1", "127.0.0.1"],
    ["1.1.1.1, unknown", "127.0.0.1", "127.0.0.1"],
    ["1.1.1.1, <script>, 10.1.1.1", "127.0.0.1", "10.1.1.1"],
  ];
  for (const [forwarded, peer, client] of cases) strictEqual(proxies.clientOf(headers(forwarded), peer), client);
});

Deno.test("what came through a proxy on this machine is not of this machine", () => {
  const proxies = new Proxies([]);
  strictEqual(proxies.isLocal(new Headers(), "127.0.0.1"), true);
  strictEqual(proxies.isLocal(new Headers(), "::1"), true);
  strictEqual(proxies.isLocal(headers("203.0.113.9"), "127.0.0.1"), false);
  strictEqual(proxies.isLocal(new Headers({ Via: "1.1 Caddy" }), "127.0.0.1"), false);
  strictEqual(proxies.isLocal(new Headers(), "192.168.0.2"), false);
});

Deno.test("addresses and networks are told from what is neither", () => {
  for (const text of ["10.0.0.0/8", "192.168.1.7", "::1", "fd00::/8", "0.0.0.0/0"]) strictEqual(isNetwork(text), true);
  for (const text of ["", "proxy", "10.0.0.0/33", "10.0.0.0/", "1.2.3/8", "::1/129", "10.0.0.0/8/8"]) {
    strictEqual(isNetwork(text), false, text);
  }
});

Deno.test("addresses of one IPv6 site are one", () => {
  strictEqual(siteOf("203.0.113.9"), "203.0.113.9");
  strictEqual(siteOf("2001:db8:1:2:aaaa::1"), "2001:db8:1:2::/64");
  strictEqual(siteOf("2001:0db8:0001:0002:ffff:1:2:3"), "2001:db8:1:2::/64");
  strictEqual(siteOf("2001:db8::7"), "2001:db8:0:0::/64");
  strictEqual(siteOf("::1"), "0:0:0:0::/64");
  strictEqual(siteOf("fe80::1%eth0"), "fe80:0:0:0::/64");
});
