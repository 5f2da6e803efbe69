import { deepStrictEqual, rejects, strictEqual } from "node:assert";
import { Admission } from "./admission.ts";
import { SignInThrottle, Throttle } from "./throttle.ts";

Deno.test("failures are forgiven one by one, and a success costs nothing", async () => {
  let now = 1000;
  const throttle = new Throttle({ account: { burst: 2, seconds: 10 } }, () => now);
  const attempt = (isRight: boolean) => throttle.attempt(["account a"], () => Promise.resolve(isRight));
  for (let i = 0; i < 5; i++) strictEqual(await attempt(true), true);
  strictEqual(await attempt(false), false);
  strictEqual(await attempt(false), false);
  await rejects(() => attempt(true), { status: 429, code: "over_request_rate_limit" });
  strictEqual(await throttle.attempt(["account b"], () => Promise.resolve(false)), false);
  now += 11;
  strictEqual(await attempt(false), false);
  await rejects(() => attempt(true));
});

Deno.test("those who guess at once are counted like those who guess in turn", async () => {
  const throttle = new Throttle({ account: { burst: 3, seconds: 10 } });
  const guess = () => throttle.attempt(["account a"], () => Promise.resolve(false)).catch(() => "refused");
  const told = await Promise.all(Array.from({ length: 10 }, guess));
  deepStrictEqual(told.filter((one) => one === false).length, 3);
});

Deno.test("whoever guesses a password locks the account's owner out nowhere", async () => {
  const limits = {
    guess: { burst: 2, seconds: 10 },
    address: { burst: 9, seconds: 10 },
    account: { burst: 4, seconds: 10 },
  };
  const throttle = new SignInThrottle(new Throttle(limits, () => 1000));
  const attempt = (address: string, isRight: boolean) =>
    throttle.attempt("ada", address, () => Promise.resolve(isRight)).catch(({ status }) => status);
  strictEqual(await attempt("home", true), true);
  for (let i = 0; i < 3; i++) await attempt("one", false);
  strictEqual(await attempt("one", true), 429);
  strictEqual(await attempt("work", true), true, "one address alone stops no other");
  for (const address of ["two", "three"]) for (let i = 0; i < 3; i++) await attempt(address, false);
  strictEqual(await attempt("four", true), 429, "many addresses together get no more guesses");
  for (const familiar of ["home", "work"]) strictEqual(await attempt(familiar, true), true);
  for (let i = 0; i < 2; i++) strictEqual(await attempt("home", false), false);
  strictEqual(await attempt("home", true), 429, "it is throttled there like everywhere");
});

Deno.test("a caller waits for its own, not for another's", async () => {
  const admission = new Admission(3, 2, 50);
  const held = Promise.withResolvers<void>();
  const hold = () => held.promise;
  const hogs = [1, 2].map(() => admission.run({ role: "anon" }, hold));
  await rejects(() => admission.run({ role: "anon" }, hold), { code: "53300" });
  strictEqual(await admission.run({ role: "authenticated", sub: "a" }, () => Promise.resolve(1)), 1);
  const third = admission.run({ role: "authenticated", sub: "a" }, hold);
  await rejects(() => admission.run({ role: "authenticated", sub: "b" }, () => Promise.resolve(1)), { code: "53300" });
  strictEqual(await admission.run({ role: "service_role" }, () => Promise.resolve(1)), 1);
  held.resolve();
  await Promise.all([...hogs, third]);
  strictEqual(await admission.run({ role: "authenticated", sub: "b" }, () => Promise.resolve(2)), 2);
});
