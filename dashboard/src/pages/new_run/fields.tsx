/** The parameters of an algorithm, with their defaults and meaning. */
import { Anchor, Collapse, Select, SimpleGrid, Stack, Textarea, TextInput } from "@mantine/core";
import { useState } from "react";
import { written } from "@/view/typed.ts";
import { ALGORITHMS, FORMS, type Parameter } from "./algorithms.ts";
import { type Form, type Problems, type Program, PROGRAMS } from "./form.ts";

export interface FieldsProps {
  form: Form;
  change: (changes: Partial<Form>) => void;
  problems: Problems;
}

const COLUMNS = { base: 1, xs: 2, lg: 3 };

export function Hyperparameters({ form, change, problems }: FieldsProps) {
  const parameters = ALGORITHMS[form.algorithm ?? ""]?.parameters ?? [];
  const further = parameters.filter(({ common }) => !common);
  const isChanged = further.some(({ name }) => form.hyperparameters[name]);
  const [opened, setOpened] = useState<boolean | null>(null);
  const isOpen = opened ?? isChanged;
  const field = (parameter: Parameter) => (
    <ParameterInput
      key={parameter.name}
      parameter={parameter}
      value={form.hyperparameters[parameter.name] ?? ""}
      change={(value) => change({ hyperparameters: { ...form.hyperparameters, [parameter.name]: value } })}
      problem={problems[`hyperparameters.${parameter.name}`]}
    />
  );
  return (
    <Stack gap="sm">
      <SimpleGrid cols={COLUMNS} spacing="sm">{parameters.filter(({ common }) => common).map(field)}</SimpleGrid>
      <div>
        <Anchor component="button" type="button" size="sm" aria-expanded={isOpen} onClick={() => setOpened(!isOpen)}>
          {isOpen ? "Further parameters" : `${further.length} further parameters…`}
        </Anchor>
        <Collapse expanded={isOpen}>
          <SimpleGrid cols={COLUMNS} spacing="sm" mt="xs">{further.map(field)}</SimpleGrid>
        </Collapse>
      </div>
    </Stack>
  );
}

/** Kinds whose description does not say how they are written in JSON. */
const WRITTEN: Parameter["kind"][] = ["schedule", "frequency", "noise"];

interface ParameterProps {
  parameter: Parameter;
  value: string;
  change: (value: string) => void;
  problem: string | undefined;
}

function ParameterInput({ parameter, value, change, problem }: ParameterProps) {
  const byDefault = parameter.default === null ? "none" : written(parameter.default);
  const common = {
    label: parameter.name,
    labelProps: { className: "om-mono" },
    description: WRITTEN.includes(parameter.kind)
      ? `${parameter.meaning}. Here: ${FORMS[parameter.kind]}`
      : parameter.meaning,
    inputWrapperOrder: ["label", "input", "error", "description"] as ("label" | "input" | "error" | "description")[],
    error: problem,
  };
  if (parameter.kind === "flag") {
    return (
      <Select
        {...common}
        placeholder={byDefault}
        data={["true", "false"]}
        value={value || null}
        onChange={(next) => change(next ?? "")}
        clearable
        clearButtonProps={{ "aria-label": `Default of ${parameter.name}` }}
      />
    );
  }
  return (
    <TextInput
      {...common}
      placeholder={byDefault}
      title={FORMS[parameter.kind]}
      value={value}
      onChange={({ currentTarget }) => change(currentTarget.value)}
      autoComplete="off"
      spellCheck={false}
    />
  );
}

const PROGRAM_LABELS: Record<Program, string> = {
  module: "A function that can be imported",
  git: "A script in a git repository",
  archive: "A script in an uploaded archive",
};

/** A program of one's own, which is handed its run. */
export function ProgramFields({ form, change, problems }: FieldsProps) {
  const text = (field: "module" | "script" | "url" | "ref" | "archive", label: string, placeholder: string) => (
    <TextInput
      label={label}
      placeholder={placeholder}
      value={form[field]}
      onChange={({ currentTarget }) => change({ [field]: currentTarget.value })}
      error={problems[field]}
      spellCheck={false}
    />
  );
  const area = (field: "arguments" | "requirements" | "extra", label: string, description: string) => (
    <Textarea
      label={label}
      description={description}
      autosize
      minRows={2}
      maxRows={10}
      value={form[field]}
      onChange={({ currentTarget }) => change({ [field]: currentTarget.value })}
      error={problems[field]}
      spellCheck={false}
      styles={{ input: { fontFamily: "var(--om-mono)", fontSize: "0.8125rem" } }}
    />
  );
  return (
    <SimpleGrid cols={{ base: 1, xs: 2 }} spacing="sm">
      <Select
        label="What is run"
        data={PROGRAMS.map((value) => ({ value, label: PROGRAM_LABELS[value] }))}
        value={form.program}
        onChange={(program) => change({ program: (program ?? "module") as Program })}
        allowDeselect={false}
      />
      {form.program === "module" && text("module", "Function", "package.module:function")}
      {form.program !== "module" && text("script", "Script", "train.py")}
      {form.program === "git" && text("url", "Repository", "https://github.com/you/training.git")}
      {form.program === "git" && text("ref", "Branch, tag or commit", "HEAD")}
      {form.program === "archive" && text("archive", "Archive in the bucket task-files", "code.tar.gz")}
      {area("arguments", "Arguments", "One on each line")}
      {area("requirements", "Requirements", "What pip installs, one on each line")}
      {area("extra", "Configuration of its own", "A JSON object that the program finds in its run")}
    </SimpleGrid>
  );
}
