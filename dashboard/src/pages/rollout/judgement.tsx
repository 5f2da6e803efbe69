/** How the rollout was judged: reward by component, validations, and what people said of it. */
import { Button, Stack, Table, Text } from "@mantine/core";
import { useState } from "react";
import type { Override, RewardComponent, Rollout } from "@/api/rollout.ts";
import { useMayChange } from "@/auth/session.tsx";
import { plain } from "@/components/agent_text.tsx";
import { Ago, Section } from "@/components/page.tsx";
import { StatusBadge } from "@/components/status.tsx";
import { COMPLETED_ROLLOUT_STATUSES, type RolloutStatus, type Row } from "@/database.ts";
import { number } from "@/view/format.ts";
import { isOverridden } from "./head.tsx";
import { JudgeDialog } from "./judge_dialog.tsx";
import { Validation } from "./validation.tsx";

/** What ended in an error cannot be judged: it has to run again. */
const JUDGED: readonly RolloutStatus[] = COMPLETED_ROLLOUT_STATUSES.filter((status) => status !== "error");

export function Rewards({ components }: { components: RewardComponent[] }) {
  return (
    <Section title="Reward by component">
      {components.length === 0 && <Text size="sm" c="dimmed">No rewards were recorded.</Text>}
      {components.length > 0 && (
        <Table fz="sm" verticalSpacing={4} style={{ fontVariantNumeric: "tabular-nums" }}>
          <Table.Thead>
            <Table.Tr>
              <Table.Th>Type</Table.Th>
              <Table.Th ta="right">Sum</Table.Th>
              <Table.Th ta="right">Count</Table.Th>
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {components.map(({ reward_type, sum, count, min, max }) => (
              <Table.Tr key={reward_type} title={`from ${number(min)} to ${number(max)}`}>
                <Table.Td>{plain(reward_type)}</Table.Td>
                <Table.Td ta="right">{number(sum)}</Table.Td>
                <Table.Td ta="right">{number(count)}</Table.Td>
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
      )}
    </Section>
  );
}

export function Validations({ rollout, validations, overrides }: {
  rollout: Rollout;
  validations: Row<"validations">[];
  overrides: Override[];
}) {
  const ofRun = useMayChange(rollout.training_runs?.owner_id);
  const ofRollout = useMayChange(rollout.owner_id);
  const [isJudging, setJudging] = useState(false);
  const mayJudge = (ofRun || ofRollout) && JUDGED.includes(rollout.status);
  return (
    <Section
      title="Validation"
      aside={mayJudge && (
        <Button size="compact-xs" variant="default" onClick={() => setJudging(true)}>Judge by hand</Button>
      )}
    >
      <Stack gap="sm">
        {validations.length === 0 && <Text size="sm" c="dimmed">No validator has judged this rollout.</Text>}
        {validations.map((validation) => (
          <Validation
            key={validation.id}
            validation={validation}
            override={overrides.find(({ validation_id }) => validation_id === validation.id)}
          />
        ))}
        <Overrides overrides={overrides} />
      </Stack>
      {isJudging && (
        <JudgeDialog
          rollout={rollout}
          validations={validations}
          canWithdraw={isOverridden(overrides)}
          onClose={() => setJudging(false)}
        />
      )}
    </Section>
  );
}

function Overrides({ overrides }: { overrides: Override[] }) {
  if (!overrides.length) return null;
  return (
    <div>
      <Text size="sm" fw={600} mb={4}>Judged by hand</Text>
      <Stack component="ul" gap={8} m={0} p={0} style={{ listStyle: "none" }}>
        {overrides.map((override) => (
          <li key={override.id}>
            {override.verdict ? <StatusBadge status={override.verdict} /> : <Text span size="sm">withdrawn</Text>}{" "}
            <Text span size="sm" c="dimmed">
              by {plain(override.made_by_name ?? "someone")}, <Ago time={override.created_at} />, {override.old_status}
              {" "}
              → {override.new_status}
            </Text>
            <Text size="sm" style={{ whiteSpace: "pre-wrap" }}>{plain(override.reason)}</Text>
          </li>
        ))}
      </Stack>
    </div>
  );
}
