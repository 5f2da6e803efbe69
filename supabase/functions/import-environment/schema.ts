/** What import-environment takes and answers. */
import { v } from "../_shared/deps.ts";
import { fields, id, integer, json, name, optional, text } from "../_shared/fields.ts";
import type { Operation } from "../_shared/operation.ts";

const MAX_URL_LENGTH = 2000;

export const input = fields({
  url: v.pipe(
    v.string("a text is expected"),
    v.minLength(1, "must not be empty"),
    v.maxLength(
      MAX_URL_LENGTH,
      `at most ${MAX_URL_LENGTH} characters are possible`,
    ),
    v.description("The address of a paper or page on the public internet, http or https."),
  ),
  name: optional(
    name(
      "What to call the environment; a name like that in the paper unless told.",
    ),
  ),
});

export const output = fields({
  environment: fields({
    id: id("The environment's id."),
    name: text("Its name."),
    kind: v.nullable(text("`gymnasium` or `grid`.")),
    description: v.nullable(text("What the agent does in it.")),
    spec: json("How it is built."),
    version: integer(1, 2 ** 31 - 1, "Which version of the environment this is."),
    is_draft: v.pipe(v.boolean(), v.description("True until a person has confirmed it.")),
    source: v.nullable(text("Where it was imported from, after redirects.")),
    owner_id: v.nullable(id("Who imported it.")),
    created_at: text("When it was made."),
    updated_at: text("When it was changed last."),
  }),
  warnings: v.pipe(v.array(v.string()), v.description("What to check, and what was left out or assumed.")),
});

export const operation = {
  method: "POST",
  auth: ["secret", "user"],
  summary: "Draft an environment from a paper",
  description:
    "Reads the page with Firecrawl and adds what it describes, a Gymnasium environment or a grid world, as a draft, " +
    "which a person checks and confirms. For editors and admins. Only addresses of the public internet are fetched, " +
    "also after redirects. Needs FIRECRAWL_API_KEY.",
  input,
  output,
  errors: [400, 403, 409, 413, 422, 429, 501, 502, 504],
  example: {
    input: { url: "https://arxiv.org/abs/2306.13831", name: "four-rooms" },
    output: {
      environment: {
        id: "0192f0c1-7a14-7c21-a0b7-3f9e5d2c6b05",
        name: "four-rooms",
        kind: "grid",
        description: "Reach the goal through the doors of four rooms.",
        spec: {
          map: [
            "#######",
            "#A.#..#",
            "#.....#",
            "##.#.##",
            "#.....#",
            "#..#.G#",
            "#######",
          ],
        },
        version: 1,
        is_draft: true,
        source: "https://arxiv.org/abs/2306.13831",
        owner_id: null,
        created_at: "2026-11-18T09:00:00+00:00",
        updated_at: "2026-11-18T09:00:00+00:00",
      },
      warnings: ["map: compare it with the paper"],
    },
  },
} satisfies Operation;

export type Input = v.InferOutput<typeof input>;
export type Output = v.InferOutput<typeof output>;
