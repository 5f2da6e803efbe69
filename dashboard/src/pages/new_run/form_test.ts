import { deepStrictEqual, ok, strictEqual } from "node:assert";
import { ALGORITHMS, parseParameter } from "./algorithms.ts";
import { configOf, copyName, EMPTY, type Form, formOf, seedsOf } from "./form.ts";

const FORM: Form = { ...EMPTY, name: "a run" };

function problemsOf(changes: Partial<Form>): string[] {
  return Object.keys(configOf({ ...FORM, ...changes }).problems);
}

Deno.test("every algorithm has its learning rate, with its own default and meaning", () => {
  deepStrictEqual(Object.keys(ALGORITHMS), ["ppo", "dqn", "a2c", "sac", "td3"]);
  const rates = Object.values(ALGORITHMS).map((each) => each.parameters.find(({ name }) => name === "learning_rate")!);
  deepStrictEqual(rates.map((rate) => rate.default), [0.0003, 0.0001, 0.0007, 0.0003, 0.001]);
  ok(rates.every((rate) => rate.common && rate.meaning.length > 10));
});

Deno.test("every default is a value that the form would take", () => {
  for (const [algorithm, { parameters }] of Object.entries(ALGORITHMS)) {
    for (const parameter of parameters) {
      const { problem } = parseParameter(parameter, JSON.stringify(parameter.default));
      strictEqual(problem, null, `${algorithm} ${parameter.name}`);
    }
  }
});

Deno.test("what is left as it was is not written", () => {
  deepStrictEqual(configOf(FORM), { config: { total_timesteps: 100_000 }, problems: {} });
  const typed = { learning_rate: "3e-4", gamma: "0.5", n_epochs: "" };
  deepStrictEqual(configOf({ ...FORM, hyperparameters: typed }).config, {
    total_timesteps: 100_000,
    hyperparameters: { gamma: 0.5 },
  });
});

Deno.test("a schedule, a frequency, a noise and a word are taken as Stable-Baselines3 means them", () => {
  const hyperparameters = {
    learning_rate: '{"start": 0.001, "end": 0}',
    train_freq: '[2, "episode"]',
    action_noise: '{"kind": "normal", "sigma": 0.1}',
    ent_coef: "auto_0.1",
    buffer_size: "50_000",
  };
  deepStrictEqual(configOf({ ...FORM, algorithm: "sac", hyperparameters }).config.hyperparameters, {
    learning_rate: { start: 0.001, end: 0 },
    buffer_size: 50_000,
    train_freq: [2, "episode"],
    action_noise: { kind: "normal", sigma: 0.1 },
    ent_coef: "auto_0.1",
  });
});

Deno.test("what is wrong is named by its field", () => {
  deepStrictEqual(problemsOf({ name: " " }), ["name"]);
  deepStrictEqual(problemsOf({ environment: "" }), ["environment"]);
  for (const total_timesteps of ["", "0", "-1", "1.5", "many", "1,5", "1e400", "12345678901234567890"]) {
    deepStrictEqual(problemsOf({ total_timesteps }), ["total_timesteps"]);
  }
  deepStrictEqual(problemsOf({ n_envs: "2000", seed: "-1", evaluation_episodes: "0" }), [
    "n_envs",
    "seed",
    "evaluation_episodes",
  ]);
  for (const gamma of ["1.1", "1e-400", "null", "high", '"0.5"', "[]"]) {
    deepStrictEqual(problemsOf({ hyperparameters: { gamma } }), ["hyperparameters.gamma"], gamma);
  }
  deepStrictEqual(problemsOf({ hyperparameters: { target_kl: "null", normalize_advantage: "false" } }), []);
  deepStrictEqual(problemsOf({ seeds: "0" }), ["seeds"]);
});

Deno.test("an entry point of one's own is a module, or a script in a repository or an archive", () => {
  const program = (changes: Partial<Form>) => configOf({ ...FORM, algorithm: null, environment: "", ...changes });
  deepStrictEqual(program({ module: "a.b:main" }).config, { entry_point: { module: "a.b:main" } });
  deepStrictEqual(
    program({
      program: "git",
      script: "train.py",
      url: "https://example.com/a.git",
      arguments: "--lr\n1",
      extra: '{"x": 1}',
    }),
    {
      config: {
        x: 1,
        entry_point: { script: "train.py", git: { url: "https://example.com/a.git" } },
        arguments: ["--lr", "1"],
      },
      problems: {},
    },
  );
  const fields = (changes: Partial<Form>) => Object.keys(program(changes).problems);
  deepStrictEqual(fields({ module: "main" }), ["module"]);
  deepStrictEqual(fields({ program: "git", script: "../x.py", url: "nowhere", ref: "-x" }), ["script", "url", "ref"]);
  deepStrictEqual(fields({ program: "archive", script: "x.py", archive: "/etc" }), ["archive"]);
  deepStrictEqual(fields({ module: "a:b", requirements: "--index-url x", extra: "[1]" }), ["requirements", "extra"]);
});

Deno.test("a run that is cloned has the configuration of the one it came from", () => {
  const configs = [
    {
      total_timesteps: 5000,
      n_envs: 4,
      seed: 7,
      policy: "MlpPolicy",
      hyperparameters: { gamma: 0.9, learning_rate: { start: 0.1, end: 0 }, policy_kwargs: { net_arch: [64] } },
      normalize: true,
      evaluation: { interval_timesteps: 0, episodes: 3 },
      checkpoint_interval_timesteps: 100,
      device: "cpu",
    },
    { lr: 1, entry_point: { module: "a:b" }, arguments: ["x"], requirements: ["trl"] },
    { entry_point: { script: "t.py", git: { url: "https://x/y", ref: "main" } } },
    { entry_point: { script: "t.py", archive: "code.tar.gz" } },
  ];
  for (const config of configs) {
    const form = formOf({ name: "a", algorithm: "PPO", environment: "maze", config });
    deepStrictEqual(configOf(form), { config, problems: {} });
    deepStrictEqual([form.name, form.environment], ["a (copy)", "maze"]);
  }
  ok(formOf({ name: "a", algorithm: "grpo", environment: null, config: null }));
});

Deno.test("copies of copies are counted", () => {
  deepStrictEqual(["a", "a (copy)", "a (copy 2)"].map(copyName), ["a (copy)", "a (copy 2)", "a (copy 3)"]);
});

Deno.test("seeds go up from the one that is given", () => {
  deepStrictEqual(seedsOf({ ...FORM, seed: "5", seeds: "3" }), [5, 6, 7]);
  deepStrictEqual(seedsOf({ ...FORM, seeds: "2" }), [0, 1]);
});
