/** Who is invited and has not come yet. */
import { Button, Group, Table, Text, VisuallyHidden } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { type Invitation, inviteMember, revokeInvitation } from "@/api/members.ts";
import { plain } from "@/components/agent_text.tsx";
import { Ago } from "@/components/page.tsx";
import { ScrollTable } from "@/components/scroll_table.tsx";
import type { Secret } from "@/components/shown_once.tsx";
import { queryClient } from "@/live/query.ts";
import { dateTime, until } from "@/view/format.ts";
import { invited } from "./invite_dialog.tsx";

const DAYS = 7;

interface Props {
  invitations: Invitation[];
  onSecret: (secret: Secret) => void;
}

export function InvitationTable({ invitations, onSecret }: Props) {
  const changed = () => queryClient.invalidateQueries({ queryKey: ["invitations"] });
  const failed = (error: Error) => notifications.show({ color: "red", title: "Not done", message: error.message });
  const revoke = ({ id }: Invitation) => revokeInvitation(id).then(changed, failed);
  const renew = ({ email, role }: Invitation) =>
    inviteMember(email, role, DAYS).then(async (made) => {
      await changed();
      onSecret(invited(made));
    }, failed);
  return (
    <ScrollTable label="Invitations" minWidth={560}>
      <Table.Thead>
        <Table.Tr>
          <Table.Th>E-mail</Table.Th>
          <Table.Th>Role</Table.Th>
          <Table.Th>Invited</Table.Th>
          <Table.Th>Expires</Table.Th>
          <Table.Th>
            <VisuallyHidden>Actions</VisuallyHidden>
          </Table.Th>
        </Table.Tr>
      </Table.Thead>
      <Table.Tbody>
        {invitations.map((invitation) => (
          <Table.Tr key={invitation.id}>
            <Table.Td maw={260}>
              <Text size="sm" truncate title={plain(invitation.email)}>{plain(invitation.email)}</Text>
            </Table.Td>
            <Table.Td>{invitation.role}</Table.Td>
            <Table.Td style={{ whiteSpace: "nowrap" }}>
              <Ago time={invitation.created_at} />
            </Table.Td>
            <Table.Td style={{ whiteSpace: "nowrap" }} title={dateTime(invitation.expires_at)}>
              {until(invitation.expires_at)}
            </Table.Td>
            <Table.Td>
              <Group gap={6} justify="flex-end" wrap="nowrap">
                <Button size="compact-xs" variant="default" onClick={() => void renew(invitation)}>New link</Button>
                <Button size="compact-xs" variant="default" onClick={() => void revoke(invitation)}>Revoke</Button>
              </Group>
            </Table.Td>
          </Table.Tr>
        ))}
      </Table.Tbody>
    </ScrollTable>
  );
}
