import { deepStrictEqual, strictEqual } from "node:assert";
import type { Sweep } from "@/api/sweeps.ts";
import type { Json } from "@/database.ts";
import { ALGORITHMS } from "../new_run/algorithms.ts";
import { emptyForm, type Form, formOf, METHODS, requestOf, type Varied } from "./form.ts";
import { offeredBy, suggested, type Template, unknownAt } from "./parameters.ts";

const PPO: Template = {
  name: "cartpole",
  algorithm: "ppo",
  environment: "CartPole-v1",
  config: { total_timesteps: 1000, hyperparameters: { gamma: 0.9 }, evaluation: { episodes: 5 }, "a.b": 1, "": 2 },
};
const OWN: Template = {
  name: "own",
  algorithm: null,
  environment: null,
  config: {
    entry_point: { module: "a:b" },
    arguments: ["x"],
    lr: 0.1,
    net: { layers: [1, 2], wide: true },
    none: null,
  },
};

function varied(path: string, fields: Partial<Varied>): Varied {
  return { path, as: "values", values: "", min: "", max: "", step: "", log: false, integer: false, ...fields };
}

function asked(fields: Partial<Form>, template = PPO) {
  return requestOf({ ...emptyForm(template), ...fields }, template, offeredBy(template));
}

Deno.test("every parameter of the algorithm is offered, and what else the configuration has", () => {
  const paths = offeredBy(PPO).map(({ path }) => path);
  deepStrictEqual(
    paths.slice(0, ALGORITHMS.ppo!.parameters.length),
    ALGORITHMS.ppo!.parameters.map(({ name }) => `hyperparameters.${name}`),
  );
  deepStrictEqual(paths.slice(ALGORITHMS.ppo!.parameters.length), [
    "seed",
    "total_timesteps",
    "n_envs",
    "policy",
    "normalize",
    "evaluation.episodes",
  ]);
  deepStrictEqual(offeredBy(OWN).map(({ path, current }) => [path, current]), [
    ["lr", 0.1],
    ["net.layers", [1, 2]],
    ["net.wide", true],
    ["none", null],
  ]);
});

Deno.test("what is suggested for a parameter can be read, whatever the algorithm and the method", () => {
  for (const algorithm of Object.keys(ALGORITHMS)) {
    const template = { ...PPO, algorithm };
    const offered = offeredBy(template);
    for (const method of METHODS) {
      const all = offered.map((each) => suggested(each, method));
      deepStrictEqual(requestOf({ ...emptyForm(template), method, varied: all }, template, offered).problems, {});
      // A range without a step has no end, and so no grid.
      if (method === "grid") deepStrictEqual(all.filter((each) => each.as === "range"), []);
    }
  }
});

Deno.test("a suggestion is around the value of the run", () => {
  const of = (path: string, method: Form["method"] = "random") =>
    suggested(offeredBy(PPO).find((each) => each.path === path)!, method);
  deepStrictEqual(of("hyperparameters.learning_rate"), {
    ...varied("hyperparameters.learning_rate", { as: "range", min: "0.00003", max: "0.003", log: true }),
  });
  strictEqual(of("hyperparameters.learning_rate", "grid").values, "0.00003, 0.0003, 0.003");
  deepStrictEqual([of("hyperparameters.gamma").min, of("hyperparameters.gamma").max], ["0.5", "0.98"]);
  strictEqual(of("hyperparameters.n_steps").values, "1024, 2048, 4096");
  strictEqual(of("normalize").values, "true, false");
  deepStrictEqual(suggested(unknownAt("x"), "random"), varied("x", {}));
});

Deno.test("a request has what is typed, and nothing of what is left empty", () => {
  const { request, problems } = asked({
    name: " s ",
    varied: [
      varied("hyperparameters.learning_rate", { as: "range", min: "1e-5", max: "1e-2", log: true }),
      varied("hyperparameters.n_steps", { as: "range", min: "64", max: "256", step: "64" }),
      varied("policy", { values: "MlpPolicy, null" }),
    ],
    max_concurrent: "3",
    stopsEarly: true,
    percentile: "25",
  });
  deepStrictEqual(problems, {});
  deepStrictEqual(request, {
    name: "s",
    method: "random",
    template: PPO,
    space: {
      "hyperparameters.learning_rate": { min: 1e-5, max: 1e-2, log: true },
      "hyperparameters.n_steps": { min: 64, max: 256, step: 64, integer: true },
      policy: { values: ["MlpPolicy", null] },
    },
    metric: "rollout/ep_rew_mean",
    direction: "maximize",
    max_trials: 20,
    max_concurrent: 3,
    early_stopping: { percentile: 25 },
  });
});

Deno.test("what is no number is sent as it is, for the database to refuse", () => {
  for (const text of ["many", "1e-400", "1e400", "NaN", "12345678901234567890", "1,5"]) {
    const { request, problems } = asked({
      max_trials: text,
      varied: [varied("own", { as: "range", min: text, max: "" })],
    });
    deepStrictEqual([request.max_trials, request.space, problems], [text, { own: { min: text } }, {}]);
  }
});

Deno.test("a value that would be stored as another is told of", () => {
  for (const text of ["1e-400", "NaN", "-Infinity", "12345678901234567890", '{"a":']) {
    deepStrictEqual(Object.keys(asked({ varied: [varied("own", { values: `1, ${text}` })] }).problems), [
      "space.own.values",
    ]);
  }
});

Deno.test("what the algorithm does not take is no value and no end of a range", () => {
  const wrong: [string, Partial<Varied>, string][] = [
    ["hyperparameters.gamma", { values: "0.9, 1.5" }, "values"],
    ["hyperparameters.n_steps", { values: "1.5" }, "values"],
    ["hyperparameters.gamma", { as: "range", min: "0.5", max: "2" }, "max"],
    ["n_envs", { as: "range", min: "0", max: "2" }, "min"],
    ["seed", { values: "2147483648" }, "values"],
  ];
  for (const [path, fields, field] of wrong) {
    deepStrictEqual(Object.keys(asked({ varied: [varied(path, fields)] }).problems), [`space.${path}.${field}`]);
  }
});

Deno.test("odd names stay what they are", () => {
  const names = ["__proto__", "constructor", "a b", "λ", "<b>", "'; drop table", "x".repeat(200)];
  const { request } = asked({ varied: names.map((path) => varied(path, { values: "1" })) });
  deepStrictEqual(Object.keys(JSON.parse(JSON.stringify(request.space)) as object).sort(), [...names].sort());
});

Deno.test("a sweep that is cloned asks for the same", () => {
  const space: Record<string, Json> = {
    lr: { min: 1e-5, max: 0.01, log: true },
    n: { min: 1, max: 9, step: 2, integer: true },
    kind: { values: ["a", "1", 1, true, null, "b, c", { x: [1] }] },
  };
  const row = {
    name: "s",
    method: "bayesian",
    template: OWN,
    space,
    metric: "loss",
    direction: "minimize",
    max_trials: 12,
    max_concurrent: 3,
    seed: 7,
    early_stopping: { after_steps: 100, percentile: 25 },
  };
  const { request, problems } = requestOf(formOf(row as unknown as Sweep), OWN, offeredBy(OWN));
  deepStrictEqual(problems, {});
  deepStrictEqual(request, row);
  strictEqual(formOf({ ...row, method: "seeds", early_stopping: null } as unknown as Sweep).method, "grid");
});
