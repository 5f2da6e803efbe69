/** POST members/accept: accept an invitation. POST members/{id}/link: make a sign-in link for a member. */
import { serve } from "../_shared/serve.ts";
import { acceptInvitation } from "./accept.ts";
import { makeLink } from "./link.ts";
import { accept, acceptInput, link, linkInput } from "./schema.ts";

export default serve(
  { ...accept, input: acceptInput, handler: acceptInvitation },
  { ...link, input: linkInput, handler: makeLink },
);
