/** The calls a browser makes with supabase-js, against a running gateway; exits non-zero at the first surprise. */
import { deepStrictEqual, ok, strictEqual } from "node:assert";
import { createClient } from "npm:@supabase/supabase-js@2.119.0";

const [url, publishableKey, secretKey] = Deno.args;
const options = { auth: { persistSession: false, autoRefreshToken: false } };
const admin = createClient(url, secretKey, options);
const visitor = createClient(url, publishableKey, options);

function data<T>(result: { data: T; error: unknown }): NonNullable<T> {
  if (result.error) throw result.error;
  return result.data!;
}

const name = `js ${crypto.randomUUID()}`;
const author = data(await admin.from("authors").insert({ name, tags: ["a"] }).select("id, name").single());
strictEqual(author.name, name);
const counted = await admin.from("authors").select("name, books(count)", { count: "exact" }).eq("id", author.id);
deepStrictEqual([counted.data, counted.count], [[{ name, books: [{ count: 0 }] }], 1]);
strictEqual((await admin.from("authors").insert({ name })).error?.code, "23505");
strictEqual(data(await admin.rpc("add_numbers", { a: 1 })), 2);

const bucket = `js-${crypto.randomUUID()}`;
data(await admin.storage.createBucket(bucket));
const files = admin.storage.from(bucket);
data(await files.upload("a/b.txt", new Blob(["content"], { type: "text/plain" }), { metadata: { run: 1 } }));
strictEqual((await files.exists("a/b.txt")).data, true);
strictEqual((await files.exists("a/none.txt")).data, false);
strictEqual(await data(await files.download("a/b.txt")).text(), "content");
strictEqual(await (await fetch(data(await files.createSignedUrl("a/b.txt", 60)).signedUrl)).text(), "content");
const { token } = data(await files.createSignedUploadUrl("up.txt"));
data(await files.uploadToSignedUrl("up.txt", token, new Blob(["up"])));
data(await files.copy("a/b.txt", "c.txt"));
data(await files.move("c.txt", "d.txt"));
deepStrictEqual(data(await files.list()).map((entry) => entry.name), ["a", "d.txt", "up.txt"]);
const info = data(await files.info("a/b.txt"));
deepStrictEqual([info.metadata, info.contentType], [{ run: 1 }, "text/plain"]);
deepStrictEqual(data(await files.info("up.txt")).metadata, {});
ok(/^[\d-]{10}T[\d:]{8}\.\d{3}Z$/.test(info.createdAt), info.createdAt);
await files.upload("with space/c d.txt", new Blob(["spaced"]));
const spaced = data(await files.createSignedUrl("with space/c d.txt", 60, { download: "e f.txt" })).signedUrl;
const download = await fetch(spaced);
deepStrictEqual(
  [await download.text(), download.headers.get("content-disposition")],
  ["spaced", "attachment; filename=e%20f.txt; filename*=UTF-8''e%20f.txt"],
);
const keys: string[] = [];
for (let cursor: string | undefined;;) {
  const sortBy = { column: "created_at", order: "desc" } as const;
  const page = data(await files.listV2({ with_delimiter: true, limit: 1, sortBy, cursor }));
  keys.push(...page.folders.map((folder) => `${folder.key} ${folder.name}`), ...page.objects.map(({ name }) => name));
  cursor = page.nextCursor;
  if (!page.hasNext) break;
}
deepStrictEqual(keys, ["with space with space/", "d.txt", "up.txt", "a a/"]);
const nowhere = (await admin.storage.from("nowhere").download("x")).error as unknown as { statusCode: string };
strictEqual(nowhere.statusCode, "404");
data(await admin.storage.emptyBucket(bucket));
data(await admin.storage.deleteBucket(bucket));

const account = { email: `${crypto.randomUUID()}@example.com`, password: "password1" };
strictEqual((await visitor.auth.signUp(account)).error?.code, "signup_disabled");
const { user } = data(await admin.auth.admin.createUser({ ...account, email_confirm: true }));
data(await visitor.auth.signInWithPassword(account));
strictEqual(data(await visitor.rpc("who_am_i")).uid, user?.id);
strictEqual(data(await visitor.functions.invoke("health", { method: "GET" })).status, "ok");
strictEqual(user?.user_metadata.email_verified, true);
const renamed = { email: `${crypto.randomUUID()}@example.com`, email_confirm: true };
const changed = data(await admin.auth.admin.updateUserById(user!.id, renamed)).user;
deepStrictEqual([changed.email, changed.identities?.[0].identity_data?.email_verified], [renamed.email, true]);
strictEqual(data(await visitor.auth.getUser()).user.email, renamed.email);
ok(data(await admin.auth.admin.listUsers()).users.some(({ id }) => id === user?.id));
await admin.auth.admin.createUser({ email: `${crypto.randomUUID()}@example.com` });
const listed = data(await admin.auth.admin.listUsers({ perPage: 1 })) as { nextPage: number; total: number };
ok(listed.nextPage === 2 && listed.total >= 2, JSON.stringify(listed));

const email = `${crypto.randomUUID()}@example.com`;
const link = data(await admin.auth.admin.generateLink({ type: "magiclink", email }));
const { hashed_token: token_hash, verification_type: type } = link.properties;
const holder = createClient(url, publishableKey, options);
const linked = data(await holder.auth.verifyOtp({ token_hash, type: type as "magiclink" }));
strictEqual(linked.user?.email, email);
strictEqual(data(await holder.rpc("who_am_i")).uid, link.user.id);
const renewed = data(await holder.auth.refreshSession());
ok(renewed.session && renewed.session.refresh_token !== linked.session?.refresh_token);
const again = await createClient(url, publishableKey, options).auth.verifyOtp({ token_hash, type: "magiclink" });
strictEqual(again.error?.code, "otp_expired");
