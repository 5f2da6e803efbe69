/** Keys: one's own, or for admins everybody's. */
import { Button, Code, Table, Text, VisuallyHidden } from "@mantine/core";
import { useState } from "react";
import { type MemberKey, revokeKey, stateOf } from "@/api/members.ts";
import { plain } from "@/components/agent_text.tsx";
import { Confirm, type Question } from "@/components/confirm.tsx";
import { Ago } from "@/components/page.tsx";
import { ScrollTable } from "@/components/scroll_table.tsx";
import { StatusBadge } from "@/components/status.tsx";
import { queryClient } from "@/live/query.ts";
import { dateTime, until } from "@/view/format.ts";

interface Props {
  keys: MemberKey[];
  /** The names of their members, where they are several people's. */
  names?: Map<string, string>;
}

export function KeyTable({ keys, names }: Props) {
  const [question, setQuestion] = useState<Question | null>(null);
  const ask = (key: MemberKey) =>
    setQuestion({
      title: `Revoke ${plain(key.name)}?`,
      text:
        "What uses it is refused at once, and for good. Records that wait to be delivered are kept, until they are " +
        "sent with another key.",
      action: "Revoke",
      run: async () => {
        await revokeKey(key.id);
        await queryClient.invalidateQueries({ queryKey: ["keys"] });
      },
    });
  return (
    <>
      <ScrollTable label="Keys" minWidth={names ? 760 : 640}>
        <Table.Thead>
          <Table.Tr>
            <Table.Th>Name</Table.Th>
            {names && <Table.Th>Member</Table.Th>}
            <Table.Th>Role</Table.Th>
            <Table.Th>State</Table.Th>
            <Table.Th>Last used</Table.Th>
            <Table.Th>Expires</Table.Th>
            <Table.Th>
              <VisuallyHidden>Actions</VisuallyHidden>
            </Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {keys.map((key) => <Row key={key.id} one={key} member={names?.get(key.member_id)} onRevoke={ask} />)}
        </Table.Tbody>
      </ScrollTable>
      {question && <Confirm question={question} onClose={() => setQuestion(null)} />}
    </>
  );
}

function Row(
  { one, member, onRevoke }: { one: MemberKey; member: string | undefined; onRevoke: (key: MemberKey) => void },
) {
  const state = stateOf(one);
  return (
    <Table.Tr>
      <Table.Td maw={260}>
        <Text size="sm" truncate title={plain(one.name)}>{plain(one.name)}</Text>
        <Code fz="xs">{one.prefix}…</Code>
      </Table.Td>
      {member !== undefined && (
        <Table.Td maw={200}>
          <Text size="sm" truncate title={plain(member)}>{plain(member)}</Text>
        </Table.Td>
      )}
      <Table.Td>{one.role}</Table.Td>
      <Table.Td>
        <StatusBadge status={state} />
      </Table.Td>
      <Table.Td style={{ whiteSpace: "nowrap" }}>
        {one.last_used_at ? <Ago time={one.last_used_at} /> : "never"}
      </Table.Td>
      <Table.Td style={{ whiteSpace: "nowrap" }} title={dateTime(one.expires_at)}>
        {one.expires_at ? until(one.expires_at) : "never"}
      </Table.Td>
      <Table.Td ta="right">
        {state === "active" && (
          <Button
            size="compact-xs"
            variant="default"
            aria-label={`Revoke ${plain(one.name)}`}
            onClick={() => onRevoke(one)}
          >
            Revoke
          </Button>
        )}
      </Table.Td>
    </Table.Tr>
  );
}
