/** One parameter of a sweep: what it is, and which values it may have. */
import { ActionIcon, Checkbox, Group, SegmentedControl, Stack, Text, TextInput } from "@mantine/core";
import { IconX } from "@tabler/icons-react";
import { plain } from "@/components/agent_text.tsx";
import { number } from "@/view/format.ts";
import { written } from "@/view/typed.ts";
import { FORMS } from "../new_run/algorithms.ts";
import type { Problems, Varied } from "./form.ts";
import classes from "./new_sweep.module.css";
import { hasRange, isWhole, type Offered, valueInRun } from "./parameters.ts";

interface Props {
  varied: Varied;
  offered: Offered;
  change: (changes: Partial<Varied>) => void;
  remove: () => void;
  problems: Problems;
  /** How many values it has; null: there is no end to them; undefined: not known. */
  count: number | null | undefined;
  isNew: boolean;
}

export function ParameterFields(props: Props) {
  const { varied: { path, as }, offered, change, remove, problems, count } = props;
  const problem = problems[`space.${path}`];
  return (
    <div className={classes.parameter} role="group" aria-label={plain(path)}>
      <What offered={offered} />
      <Stack gap={6} className={classes.how}>
        {hasRange(offered) && (
          <Group gap="xs" justify="space-between">
            <SegmentedControl
              size="xs"
              aria-label={`How ${plain(path)} varies`}
              data={[{ value: "values", label: "Values" }, { value: "range", label: "Range" }]}
              value={as}
              onChange={(value) => change({ as: value as Varied["as"] })}
            />
            <Text size="xs" c="dimmed">{counted(count)}</Text>
          </Group>
        )}
        {as === "range" ? <RangeInputs {...props} /> : <ValuesInput {...props} />}
        {problem && <Text size="xs" c="var(--om-bad)" role="alert">{problem}</Text>}
      </Stack>
      <ActionIcon variant="subtle" color="gray" aria-label={`Do not vary ${plain(path)}`} onClick={remove}>
        <IconX size={16} />
      </ActionIcon>
    </div>
  );
}

function counted(count: number | null | undefined): string {
  if (count === undefined) return "";
  if (count === null) return "any number between";
  return count === 1 ? "1 value" : count < 1e6 ? `${number(count)} values` : "over a million values";
}

function What({ offered }: { offered: Offered }) {
  const { path, parameter, current } = offered;
  const value = valueInRun(offered);
  return (
    <div>
      <span className={classes.path}>{plain(path)}</span>
      {parameter && <Text size="xs" c="dimmed" lineClamp={2} title={parameter.meaning}>{parameter.meaning}</Text>}
      <Text size="xs" c="dimmed" lineClamp={2}>
        {value === undefined
          ? "The run does not set it"
          : `In the run: ${value === null ? "none" : plain(written(value))}${
            current === undefined ? ", the default" : ""
          }`}
      </Text>
    </div>
  );
}

const ORDER: ("label" | "input" | "error" | "description")[] = ["label", "input", "error", "description"];

function ValuesInput({ varied: { path, values }, offered: { parameter }, change, problems, isNew }: Props) {
  return (
    <TextInput
      size="sm"
      aria-label={`Values of ${plain(path)}`}
      description={parameter
        ? `Between commas; each ${FORMS[parameter.kind]}`
        : "Between commas; numbers, words or JSON"}
      inputWrapperOrder={ORDER}
      value={values}
      onChange={({ currentTarget }) => change({ values: currentTarget.value })}
      error={problems[`space.${path}.values`]}
      autoFocus={isNew}
      autoComplete="off"
      spellCheck={false}
    />
  );
}

function RangeInputs({ varied, offered, change, problems, isNew }: Props) {
  const { path, log, integer } = varied;
  const end = (field: "min" | "max" | "step", label: string, placeholder = "") => (
    <TextInput
      size="sm"
      label={label}
      aria-label={`${label} of ${plain(path)}`}
      placeholder={placeholder}
      inputMode="decimal"
      value={varied[field]}
      onChange={({ currentTarget }) => change({ [field]: currentTarget.value })}
      error={problems[`space.${path}.${field}`]}
      autoFocus={isNew && field === "min"}
      autoComplete="off"
      spellCheck={false}
    />
  );
  return (
    <>
      <div className={classes.ends}>
        {end("min", "Lowest")}
        {end("max", "Highest")}
        {end("step", "Step", isWhole(offered) ?? integer ? "1" : "Any")}
      </div>
      <Group gap="sm">
        <Checkbox
          size="xs"
          label="Log scale"
          checked={log}
          onChange={({ currentTarget }) => change({ log: currentTarget.checked })}
          error={problems[`space.${path}.log`]}
        />
        {isWhole(offered) === null && (
          <Checkbox
            size="xs"
            label="Whole numbers"
            checked={integer}
            onChange={({ currentTarget }) => change({ integer: currentTarget.checked })}
            error={problems[`space.${path}.integer`]}
          />
        )}
      </Group>
    </>
  );
}
