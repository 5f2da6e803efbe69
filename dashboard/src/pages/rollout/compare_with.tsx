/** Choose another rollout to see next to this one: of the same group, or any by its id or address. */
import { Button, Group, Modal, Stack, Table, Text, TextInput } from "@mantine/core";
import { type FormEvent, useState } from "react";
import { Link, useNavigate } from "react-router";
import { readSiblings, type Rollout } from "@/api/rollout.ts";
import { plain } from "@/components/agent_text.tsx";
import { Found } from "@/components/states.tsx";
import { StatusBadge } from "@/components/status.tsx";
import { useLive } from "@/live/query.ts";
import { number, shortId, UNKNOWN } from "@/view/format.ts";

const ID = /[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/gi;

export function CompareWith({ rollout, onClose }: { rollout: Rollout; onClose: () => void }) {
  const navigate = useNavigate();
  const [given, setGiven] = useState("");
  const [error, setError] = useState<string | null>(null);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    const other = given.match(/rollouts\/([0-9a-f-]{36})/i)?.[1] ?? given.match(ID)?.[0];
    if (!other) return setError("This holds no id of a rollout.");
    if (other.toLowerCase() === rollout.id) return setError("This is the rollout you look at.");
    void navigate(`/rollouts/${rollout.id}/against/${other.toLowerCase()}`);
  };
  return (
    <Modal
      opened
      onClose={onClose}
      title="Compare with another rollout"
      size="lg"
      closeButtonProps={{ "aria-label": "Close" }}
    >
      <Stack>
        {rollout.group_id && <Siblings rollout={rollout} groupId={rollout.group_id} />}
        <form onSubmit={submit}>
          <Group align="flex-start" gap="xs" wrap="nowrap">
            <TextInput
              style={{ flex: 1 }}
              label="Any other rollout"
              placeholder="Its id, or the address of its page"
              value={given}
              error={error}
              onChange={({ currentTarget }) => {
                setGiven(currentTarget.value);
                setError(null);
              }}
            />
            <Button type="submit" mt={25} disabled={!given.trim()}>Compare</Button>
          </Group>
        </form>
      </Stack>
    </Modal>
  );
}

function Siblings({ rollout, groupId }: { rollout: Rollout; groupId: string }) {
  const query = useLive(
    rollout.training_run_id,
    ["rollout", rollout.id, "siblings"],
    () => readSiblings(groupId, rollout.id),
  );
  return (
    <Found query={query}>
      {(siblings) =>
        siblings.length === 0
          ? <Text size="sm" c="dimmed">It is the only one of its group.</Text>
          : (
            <Table.ScrollContainer minWidth={380} mah={360}>
              <Table fz="sm" style={{ fontVariantNumeric: "tabular-nums" }}>
                <Table.Caption>Of the same group</Table.Caption>
                <Table.Thead>
                  <Table.Tr>
                    <Table.Th>Rollout</Table.Th>
                    <Table.Th>Status</Table.Th>
                    <Table.Th ta="right">Reward</Table.Th>
                    <Table.Th ta="right">Turns</Table.Th>
                    <Table.Th>Model</Table.Th>
                  </Table.Tr>
                </Table.Thead>
                <Table.Tbody>
                  {siblings.map(({ id, status, total_reward, step_count, model }) => (
                    <Table.Tr key={id}>
                      <Table.Td>
                        <Link to={`/rollouts/${rollout.id}/against/${id}`}>{shortId(id)}</Link>
                      </Table.Td>
                      <Table.Td>
                        <StatusBadge status={status} />
                      </Table.Td>
                      <Table.Td ta="right">{number(total_reward)}</Table.Td>
                      <Table.Td ta="right">{number(step_count)}</Table.Td>
                      <Table.Td>{model ? plain(model) : UNKNOWN}</Table.Td>
                    </Table.Tr>
                  ))}
                </Table.Tbody>
              </Table>
            </Table.ScrollContainer>
          )}
    </Found>
  );
}
