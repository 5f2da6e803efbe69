/** A paper's URL to a draft of its environment, which a person confirms. */
import { conflict, forbidden, unwrap } from "../_shared/errors.ts";
import { uuid5 } from "../_shared/ids.ts";
import type { Call } from "../_shared/serve.ts";
import { checkedUrl, followed, INTERNET, type Network, publicAddresses } from "./destination.ts";
import { type Draft, draftOf, PROMPT, SCHEMA } from "./draft.ts";
import { getService, scrape } from "./firecrawl.ts";
import type { Input, Output } from "./schema.ts";

/** The namespace of derived ids, as every client has it. */
const NAMESPACE = "e2a7519d-8088-4d57-8dbf-f9f4cf31e13d";
const MAX_NAMES = 20;

/** The handler; `network` is how it resolves and reaches the hosts of URLs. */
export function importer(network: Network = INTERNET) {
  return async (call: Call<Input>): Promise<Output> => {
    await requireEditor(call);
    const { url, name } = call.input;
    // What is wrong with the request is said before anything is fetched.
    checkedUrl(url);
    const service = getService();
    if (name && await isTaken(call, name)) throw taken(name);
    const target = await followed(url, network);
    const page = await scrape(service, target, PROMPT, SCHEMA);
    // A page may lead on by script; where it ended must be public as well.
    for (const reported of page.urls) {
      await publicAddresses(checkedUrl(reported), network);
    }
    const draft = draftOf(page);
    const environment = await save(call, draft, target, name ?? null);
    return { environment, warnings: draft.warnings };
  };
}

/** Row level security would refuse the row of anyone else too, but only after Firecrawl was paid for it. */
async function requireEditor({ client, caller }: Call<Input>): Promise<void> {
  if (caller.kind !== "user") return;
  const found = unwrap(
    await client.from("members").select("role").eq("user_id", caller.userId!)
      .limit(1),
  );
  if (!["editor", "admin"].includes(found?.[0]?.role)) {
    throw forbidden(
      "only editors and admins import environments; ask an admin for the role",
    );
  }
}

async function isTaken({ client }: Call<Input>, name: string): Promise<boolean> {
  const found = unwrap(
    await client.from("environments").select("id").eq("name", name).limit(1),
  );
  return found !== null && found.length > 0;
}

function taken(name: string) {
  return conflict(`name: there is an environment ${name}; give another name`, {
    field: "name",
  });
}

/** Add the draft, under the name that was asked for, or under one like that of the paper which is free. */
async function save(call: Call<Input>, draft: Draft, source: string, wished: string | null) {
  for (let number = 1; number <= MAX_NAMES; number++) {
    const name = wished ??
      (number === 1 ? draft.name : `${draft.name} (${number})`);
    const { kind, description, spec } = draft;
    const id = await uuid5(NAMESPACE, `environment:${name}`);
    const row = { id, name, kind, description, spec, source, is_draft: true };
    // Inserted, never merged: an import changes no environment that there is.
    const result = await call.client.from("environments").insert(row).select();
    if (result.error?.code === "23505") {
      if (wished !== null) throw taken(wished);
      continue;
    }
    return unwrap(result)![0];
  }
  throw taken(draft.name);
}
