/** Specs of Gymnasium environments, as the training service reads them. */
import {
  anyObject,
  asList,
  asObject,
  checkFields,
  type Fields,
  matching,
  oneOf,
  optional,
  type Problem,
  whole,
} from "./problems.ts";
import terms from "./terms.json" with { type: "json" };

/** The wrappers that a spec may name, with their arguments. */
export const WRAPPERS: Record<string, string[]> = terms.wrappers;

export function wrapperProblems(wrappers: unknown): Problem[] {
  if (wrappers === undefined) return [];
  const all = asList(wrappers);
  if (!all || all.length > 16) return [{ field: "wrappers", message: "must be a list of at most 16" }];
  return all.flatMap((wrapper, place) => {
    const field = `wrappers.${place}`;
    const wrong = checkFields(wrapper, field, {
      required: ["name"],
      fields: { name: oneOf(...Object.keys(WRAPPERS)), arguments: anyObject },
    });
    if (wrong.length) return wrong;
    const { name, arguments: given } = wrapper as { name: string; arguments?: Fields };
    const known = WRAPPERS[name]!;
    return Object.keys(given ?? {}).filter((argument) => !known.includes(argument)).map((argument) => ({
      field: `${field}.arguments`,
      message: `${name} has no argument ${argument}; ${
        known.length ? `there are ${known.join(", ")}` : "it takes none"
      }`,
    }));
  });
}

export function checkGymnasium(spec: unknown): Problem[] {
  const problems = checkFields(spec, "", {
    fields: {
      kind: oneOf("gymnasium"),
      id: optional(matching(/^[^\s]{1,4096}$/, "must be an id without spaces, such as CartPole-v1")),
      entry_point: optional(matching(/^[A-Za-z_][\w.]*:[A-Za-z_][\w.]*$/, "must be module:attribute")),
      arguments: anyObject,
      reset: anyObject,
      seed: optional(whole(0, Number.MAX_SAFE_INTEGER)),
    },
    known: ["wrappers"],
  });
  const given = asObject(spec);
  if (!given) return problems;
  const names = [given.id, given.entry_point].filter((name) => name !== undefined && name !== null && name !== "");
  if (names.length !== 1 && !problems.some(({ field }) => field === "id" || field === "entry_point")) {
    problems.push({ field: "id", message: "give an id, or an entry_point, not both" });
  }
  return [...problems, ...wrapperProblems(given.wrappers)];
}
