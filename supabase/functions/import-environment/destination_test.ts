import { deepStrictEqual, ok, rejects, strictEqual } from "node:assert";
import { followed, type Network } from "./destination.ts";

const NAMES: Record<string, string[]> = {
  "papers.example": ["93.184.215.14", "2606:4700::1111"],
  "mixed.example": ["93.184.215.14", "10.0.0.1"],
  "inside.example": ["fd00::1"],
  "metadata.example": ["169.254.169.254"],
};

interface Seen {
  network: Network;
  asked: string[];
  connected: string[];
  requests: string[];
}

/** Hosts that answer as told, by path; the checks are those of every network. */
function hosts(answers: Record<string, string | Promise<string>>, names = NAMES): Seen {
  const seen: Omit<Seen, "network"> = {
    asked: [],
    connected: [],
    requests: [],
  };
  const network: Network = {
    resolve(name) {
      seen.asked.push(name);
      return Promise.resolve(names[name] ?? []);
    },
    connect(address, port, tlsName) {
      seen.connected.push(`${address} ${port} ${tlsName ?? "plain"}`);
      let text: string | Promise<string> = "";
      return Promise.resolve({
        write(bytes: Uint8Array) {
          const request = new TextDecoder().decode(bytes);
          seen.requests.push(request);
          text = answers[request.split(" ")[1]!] ??
            "HTTP/1.1 404 Not Found\r\n\r\n";
          return Promise.resolve(bytes.length);
        },
        async read(buffer: Uint8Array) {
          const bytes = new TextEncoder().encode(await text);
          buffer.set(bytes);
          text = "";
          return bytes.length === 0 ? null : bytes.length;
        },
        close() {},
      } as unknown as Deno.Conn);
    },
  };
  return { ...seen, network };
}

const redirect = (location: string, status = 302) => `HTTP/1.1 ${status} Moved\r\nLocation: ${location}\r\n\r\n`;
const found = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<p>";

Deno.test("redirects are followed to the last URL, over the addresses that were checked", async () => {
  const seen = hosts({
    "/a?q=1": redirect("/b", 301),
    "/b": redirect("https://papers.example/c#part"),
    "/c": found,
  });
  strictEqual(
    await followed("http://papers.example/a?q=1#top", seen.network),
    "https://papers.example/c",
  );
  deepStrictEqual(seen.asked, ["papers.example", "papers.example", "papers.example"]);
  deepStrictEqual(seen.connected, [
    "93.184.215.14 80 plain",
    "93.184.215.14 80 plain",
    "93.184.215.14 443 papers.example",
  ]);
  ok(seen.requests[0]!.includes("\r\nHost: papers.example\r\n"));
});

Deno.test("a status that is no redirect, or one without a location, is the end", async () => {
  for (
    const answer of [
      "HTTP/1.1 403 Forbidden\r\n\r\n",
      "HTTP/1.0 302 Found\r\n\r\n",
      "HTTP/1.1 304 \r\nLocation: /x\r\n\r\n",
    ]
  ) {
    strictEqual(
      await followed(
        "http://papers.example/a",
        hosts({ "/a": answer }).network,
      ),
      "http://papers.example/a",
    );
  }
});

const REFUSED = [
  "",
  "papers.example",
  "/etc/passwd",
  "file:///etc/passwd",
  "ftp://papers.example/",
  "gopher://papers.example/",
  "data:text/html,hi",
  "javascript:alert(1)",
  "http://user@papers.example/",
  "http://user:password@papers.example/",
  "http://papers.example:8080/",
  "https://papers.example:80/",
  "http://localhost/",
  "http://LOCALHOST./",
  "http://a.localhost/",
  "http://printer.local/",
  "http://metadata.google.internal/",
  "http://intranet/",
  "http://127.0.0.1/",
  "http://127.1/",
  "http://2130706433/",
  "http://017700000001/",
  "http://0x7f.0.0.1/",
  "http://0x7f000001/",
  "http://①②⑦.⓪.⓪.①/",
  "http://0/",
  "http://10.1.2.3/",
  "http://100.64.0.1/",
  "http://169.254.169.254/latest/meta-data/",
  "http://[::1]/",
  "http://[::ffff:10.0.0.1]/",
  "http://[::ffff:a00:1]/",
  "http://[64:ff9b::a00:1]/",
  "http://[2002:7f00:1::]/",
  "http://[fe80::1]/",
  "http://unknown.example/",
  "http://mixed.example/",
  "http://inside.example/",
  "http://metadata.example/",
];

Deno.test("what is not of the public internet is refused before anything is sent", async () => {
  for (const url of REFUSED) {
    const seen = hosts({});
    await rejects(followed(url, seen.network), {
      status: 400,
      code: "invalid_input",
      details: { field: "url" },
    }, url);
    deepStrictEqual(seen.connected, [], url);
  }
});

Deno.test("the same is refused when it comes by a redirect", async () => {
  // A location alone is relative to the page: these are paths of the same host.
  const relative = ["", "papers.example", "/etc/passwd"];
  for (const url of REFUSED.filter((each) => !relative.includes(each))) {
    const seen = hosts({
      "/a": redirect(
        url.replace(/[①②⑦⓪]/g, (letter) => encodeURIComponent(letter)),
      ),
    });
    await rejects(followed("http://papers.example/a", seen.network), { status: 400 }, url);
    strictEqual(seen.connected.length, 1, url);
  }
});

Deno.test("redirects without end are given up", async () => {
  const seen = hosts({ "/a": redirect("/a") });
  await rejects(
    followed("http://papers.example/a", seen.network),
    /redirected more than 5 times/,
  );
  strictEqual(seen.connected.length, 6);
});

Deno.test("a name that leads elsewhere the next time is checked the next time", async () => {
  let times = 0;
  const { network, connected } = hosts({ "/a": redirect("/b") });
  const rebinding: Network = {
    ...network,
    resolve: () => Promise.resolve([times++ === 0 ? "93.184.215.14" : "127.0.0.1"]),
  };
  await rejects(followed("http://papers.example/a", rebinding), { status: 400 });
  deepStrictEqual(connected, ["93.184.215.14 80 plain"]);
});

Deno.test("an answer that is not HTTP, or none, is an error of the URL", async () => {
  for (
    const answer of [
      "",
      "SSH-2.0-OpenSSH\r\n",
      "HTTP/1.1 abc\r\n\r\n",
      "x".repeat(200_000),
    ]
  ) {
    const seen = hosts({ "/a": answer.slice(0, 16_000) });
    await rejects(
      followed("http://papers.example/a", seen.network),
      /url: papers.example cannot be reached/,
    );
  }
});

Deno.test("a path cannot add lines to the request", async () => {
  const seen = hosts({});
  await followed(
    "http://papers.example/a\r\nX-Evil: 1\r\n\r\nGET /b",
    seen.network,
  );
  strictEqual(seen.requests[0]!.split("\r\n")[0], "GET /aX-Evil:%201GET%20/b HTTP/1.1");
});
