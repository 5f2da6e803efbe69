/** What members takes and answers. */
import { MEMBER_ROLES } from "../_shared/constants.ts";
import { v } from "../_shared/deps.ts";
import { fields, id, name, optional, text } from "../_shared/fields.ts";
import type { Operation } from "../_shared/operation.ts";

export const MIN_PASSWORD_LENGTH = 8;
/** What bcrypt reads; the rest of a longer one would not count. */
const MAX_PASSWORD_BYTES = 72;

const password = v.pipe(
  v.string("a text is expected"),
  v.minLength(MIN_PASSWORD_LENGTH, `at least ${MIN_PASSWORD_LENGTH} characters are expected`),
  v.check(
    (value) => new TextEncoder().encode(value).length <= MAX_PASSWORD_BYTES,
    `at most ${MAX_PASSWORD_BYTES} bytes are possible`,
  ),
  v.description("The password of the new account, or of the one that the address has already."),
);

export const acceptInput = fields({
  token: name("The token of the invitation: what stands after `#token=` in its link."),
  name: optional(name("How the others will see the member.")),
  password,
});

export const acceptOutput = fields({
  user_id: id("The member's id."),
  email: text("The address to sign in with."),
  role: v.picklist(MEMBER_ROLES),
});

export const linkInput = fields({ id: id("The member's id.") });

export const linkOutput = fields({
  email: text("The member's address."),
  token_hash: text("Signs in once: the link is the dashboard's address with `#token_hash=` and this."),
});

const USER_ID = "3f1c9a52-6c0e-4b7e-9d1a-2f5b8e7c4d10";

export const accept = {
  method: "POST",
  path: "/accept",
  name: "accept-invitation",
  auth: ["publishable"],
  summary: "Accept an invitation",
  description:
    "Makes an account for the invited address, and the account a member with the role of the invitation. Where the " +
    "address has an account already, its password is expected. An invitation is accepted once.",
  input: acceptInput,
  output: acceptOutput,
  errors: [400, 403, 409],
  example: {
    input: { token: "the-token-of-the-link", name: "Ada", password: "correct horse battery" },
    output: { user_id: USER_ID, email: "ada@example.org", role: "editor" },
  },
} satisfies Operation;

export const link = {
  method: "POST",
  path: "/{id}/link",
  name: "make-sign-in-link",
  auth: ["secret", "user"],
  summary: "Make a sign-in link for a member",
  description:
    "For admins, when a member has forgotten the password: whoever opens the link is signed in as the member, once and " +
    "within a day, and may then choose a new password. It is kept in the audit log who made it.",
  input: linkInput,
  output: linkOutput,
  errors: [403, 404],
  example: { input: { id: USER_ID }, output: { email: "ada@example.org", token_hash: "the-token-of-the-link" } },
} satisfies Operation;

export const operations = [accept, link] satisfies Operation[];

export type AcceptInput = v.InferOutput<typeof acceptInput>;
export type AcceptOutput = v.InferOutput<typeof acceptOutput>;
export type LinkInput = v.InferOutput<typeof linkInput>;
export type LinkOutput = v.InferOutput<typeof linkOutput>;
