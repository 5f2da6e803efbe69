/** Where and how a run is launched. */
import {
  Anchor,
  Collapse,
  SegmentedControl,
  SimpleGrid,
  Stack,
  Switch,
  Text,
  Textarea,
  TextInput,
} from "@mantine/core";
import { useState } from "react";
import { COMMON, FURTHER, type LaunchForm, type Option, REMOTE } from "./launch_form.ts";

interface Props {
  form: LaunchForm;
  change: (changes: Partial<LaunchForm>) => void;
}

export function LaunchFields({ form, change }: Props) {
  const [isOpen, setOpen] = useState(
    Boolean(form.env || form.secrets || FURTHER.some(({ name }) => form.options[name])),
  );
  const isRemote = form.backend === "skypilot";
  const field = (option: Option) => (
    <OptionInput
      key={option.name}
      option={option}
      value={form.options[option.name] ?? ""}
      change={(value) => change({ options: { ...form.options, [option.name]: value } })}
    />
  );
  return (
    <Stack gap="sm">
      <SegmentedControl
        aria-label="Backend"
        maw={320}
        data={[
          { value: "local", label: "Local" },
          { value: "skypilot", label: "SkyPilot" },
        ]}
        value={form.backend}
        onChange={(backend) => change({ backend: backend as LaunchForm["backend"] })}
      />
      <Text size="xs" c="dimmed">
        {isRemote
          ? "On a machine that SkyPilot finds: a cloud, Kubernetes or Slurm."
          : "A process on the machine where the orchestrator runs."}
      </Text>
      <SimpleGrid cols={{ base: 1, xs: 2 }} spacing="sm">
        {isRemote && REMOTE.map(field)}
        {isRemote && (
          <Switch
            label="Spot instances"
            description="Cheaper, and may be taken away; the job restarts."
            checked={form.use_spot}
            onChange={({ currentTarget }) => change({ use_spot: currentTarget.checked })}
          />
        )}
      </SimpleGrid>
      <SimpleGrid cols={{ base: 2, xs: 4 }} spacing="sm">{COMMON.map(field)}</SimpleGrid>
      <div>
        <Anchor component="button" type="button" size="sm" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
          {isOpen ? "Further options" : "Further options…"}
        </Anchor>
        <Collapse expanded={isOpen}>
          <SimpleGrid cols={{ base: 1, xs: 2 }} spacing="sm" mt={6}>
            {isRemote && FURTHER.map(field)}
            <Textarea
              label="Variables"
              description="NAME=value, one on each line"
              autosize
              minRows={2}
              maxRows={6}
              value={form.env}
              onChange={({ currentTarget }) => change({ env: currentTarget.value })}
            />
            {isRemote && (
              <TextInput
                label="Secrets"
                description="Names of variables that the orchestrator has; values are never shown"
                placeholder="HF_TOKEN, WANDB_API_KEY"
                value={form.secrets}
                onChange={({ currentTarget }) => change({ secrets: currentTarget.value })}
              />
            )}
          </SimpleGrid>
        </Collapse>
      </div>
    </Stack>
  );
}

function OptionInput({ option, value, change }: { option: Option; value: string; change: (value: string) => void }) {
  const common = { label: option.label, description: option.hint, placeholder: option.placeholder, value };
  if (option.isLong) {
    return (
      <Textarea
        {...common}
        autosize
        minRows={2}
        maxRows={8}
        onChange={({ currentTarget }) => change(currentTarget.value)}
      />
    );
  }
  return (
    <TextInput
      {...common}
      inputMode={option.isNumber ? "numeric" : undefined}
      inputWrapperOrder={["label", "input", "description", "error"]}
      onChange={({ currentTarget }) => change(currentTarget.value)}
    />
  );
}
