/** How a sweep searches: its method, what decides, how many trials, and when one is stopped early. */
import { Autocomplete, Code, Input, SegmentedControl, SimpleGrid, Stack, Switch, Text, TextInput } from "@mantine/core";
import type { Form, Method, Problems } from "./form.ts";

interface Props {
  form: Form;
  change: (changes: Partial<Form>) => void;
  problems: Problems;
  /** Metrics that the run has recorded. */
  metrics: string[];
}

const EXPLAINED: Record<Method, string> = {
  grid: "All combinations of the values.",
  random: "Each trial is drawn anew, whatever the others found.",
  bayesian: "Each trial is chosen by what the earlier ones found.",
};
const COLUMNS = { base: 1, xs: 2, md: 4 };

export function SearchFields({ form, change, problems, metrics }: Props) {
  const text = (
    field: "name" | "max_trials" | "max_concurrent" | "seed" | "after_steps" | "min_trials" | "percentile",
    label: string,
    placeholder: string,
    description?: string,
  ) => (
    <TextInput
      label={label}
      placeholder={placeholder}
      description={description}
      inputWrapperOrder={["label", "input", "error", "description"]}
      inputMode={field === "name" ? undefined : "numeric"}
      value={form[field]}
      onChange={({ currentTarget }) => change({ [field]: currentTarget.value })}
      error={problems[field] ?? problems[`early_stopping.${field}`]}
      autoComplete="off"
    />
  );
  const needsOptuna = form.method === "bayesian" || form.stopsEarly;
  return (
    <Stack gap="sm">
      <div>
        <SegmentedControl
          aria-label="Method"
          data={[
            { value: "grid", label: "Grid" },
            { value: "random", label: "Random" },
            { value: "bayesian", label: "Bayesian" },
          ]}
          value={form.method}
          onChange={(method) => change({ method: method as Method })}
        />
        <Text size="xs" c="dimmed" mt={4}>{EXPLAINED[form.method]}</Text>
      </div>
      <SimpleGrid cols={{ base: 1, xs: 2 }} spacing="sm">
        <Autocomplete
          label="Metric that decides"
          description="Its last value is that of a trial"
          inputWrapperOrder={["label", "input", "error", "description"]}
          data={metrics}
          limit={30}
          value={form.metric}
          onChange={(metric) => change({ metric })}
          error={problems.metric}
        />
        <Input.Wrapper label="Goal" labelElement="div" labelProps={{ id: "goal" }}>
          <div>
            <SegmentedControl
              aria-labelledby="goal"
              data={[{ value: "maximize", label: "Maximize" }, { value: "minimize", label: "Minimize" }]}
              value={form.direction}
              onChange={(direction) => change({ direction: direction as Form["direction"] })}
            />
          </div>
        </Input.Wrapper>
      </SimpleGrid>
      <SimpleGrid cols={COLUMNS} spacing="sm">
        {text("name", "Name", "")}
        {form.method === "grid"
          ? text("max_trials", "Trials", "All combinations", "Of a lower number, the first ones")
          : text("max_trials", "Trials", "")}
        {text("max_concurrent", "At most at once", "1")}
        {text("seed", "Seed of the search", "0")}
      </SimpleGrid>
      <Switch
        label="Stop bad trials early"
        checked={form.stopsEarly}
        onChange={({ currentTarget }) => change({ stopsEarly: currentTarget.checked })}
      />
      {form.stopsEarly && (
        <SimpleGrid cols={{ base: 1, xs: 3 }} spacing="sm">
          {text("after_steps", "Not before step", "0")}
          {text("min_trials", "Completed trials needed", "4", "Before any is stopped")}
          {text("percentile", "Keep the best, in percent", "50", "50 is the median")}
        </SimpleGrid>
      )}
      {needsOptuna && (
        <Text size="xs" c="dimmed">
          This needs Optuna where the orchestrator runs: <Code>pip install "openmanus-rl[sweeps]"</Code>
        </Text>
      )}
      {problems.early_stopping && <Text size="sm" c="var(--om-bad)" role="alert">{problems.early_stopping}</Text>}
    </Stack>
  );
}
