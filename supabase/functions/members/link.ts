/** A sign-in link for a member, made for an admin. */
import { adminClient } from "../_shared/auth.ts";
import { internal, unwrap } from "../_shared/errors.ts";
import type { Call } from "../_shared/serve.ts";
import type { LinkInput, LinkOutput } from "./schema.ts";

export async function makeLink({ input, client }: Call<LinkInput>): Promise<LinkOutput> {
  // As the caller: the database says whether they may, and keeps that they did.
  const email = unwrap(await client.rpc("prepare_sign_in_link", { member_id: input.id }));
  const { data, error } = await adminClient().auth.admin.generateLink({ type: "magiclink", email });
  if (error) throw internal(error);
  return { email, token_hash: data.properties.hashed_token };
}
