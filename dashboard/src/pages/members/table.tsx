/** The members: for admins with what can be done about each. */
import { ActionIcon, Badge, Group, Menu, NativeSelect, Table, Text, TextInput, VisuallyHidden } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { IconDots } from "@tabler/icons-react";
import { useState } from "react";
import { changeRole, makeSignInLink, type Member, removeMember } from "@/api/members.ts";
import { useAccess } from "@/auth/session.tsx";
import { plain } from "@/components/agent_text.tsx";
import { Confirm, type Question } from "@/components/confirm.tsx";
import { Ago } from "@/components/page.tsx";
import { ScrollTable } from "@/components/scroll_table.tsx";
import type { Secret } from "@/components/shown_once.tsx";
import { MEMBER_ROLES, type MemberRole } from "@/database.ts";
import { queryClient } from "@/live/query.ts";
import { number, shortId } from "@/view/format.ts";
import { More } from "../queue/more.tsx";

/** A row has controls of its own: hundreds at once would keep the page busy for seconds. */
const PAGE = 100;

export function nameOf({ display_name, email, user_id }: Member): string {
  return display_name ?? email ?? shortId(user_id);
}

interface Props {
  members: Member[];
  isAdmin: boolean;
  onSecret: (secret: Secret) => void;
}

export function MemberTable({ members, isAdmin, onSecret }: Props) {
  const [question, setQuestion] = useState<Question | null>(null);
  const askToRemove = (member: Member) =>
    setQuestion({
      title: `Remove ${plain(nameOf(member))}?`,
      text: "They see no more than public runs, and their keys end at once. What they recorded stays.",
      action: "Remove",
      run: async () => {
        await removeMember(member.user_id);
        await Promise.all(["members", "keys"].map((key) => queryClient.invalidateQueries({ queryKey: [key] })));
      },
    });
  const [search, setSearch] = useState("");
  const [most, setMost] = useState(PAGE);
  const wanted = search.trim().toLowerCase();
  const found = members.filter((member) => `${nameOf(member)} ${member.email ?? ""}`.toLowerCase().includes(wanted));
  return (
    <>
      {members.length > PAGE && (
        <TextInput
          size="xs"
          w={280}
          maw="100%"
          mb="sm"
          aria-label="Search the members"
          placeholder="Name or e-mail"
          value={search}
          onChange={({ currentTarget }) => setSearch(currentTarget.value)}
        />
      )}
      <ScrollTable label="Members" minWidth={isAdmin ? 640 : 320} maxHeight={560}>
        <Table.Thead>
          <Table.Tr>
            <Table.Th>Name</Table.Th>
            <Table.Th>Role</Table.Th>
            {isAdmin && <Table.Th>Last sign-in</Table.Th>}
            {isAdmin && <Table.Th ta="right">Keys</Table.Th>}
            <Table.Th>Joined</Table.Th>
            {isAdmin && (
              <Table.Th>
                <VisuallyHidden>Actions</VisuallyHidden>
              </Table.Th>
            )}
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {found.slice(0, most).map((member) => (
            <Row key={member.user_id} member={member} isAdmin={isAdmin} onRemove={askToRemove} onSecret={onSecret} />
          ))}
        </Table.Tbody>
      </ScrollTable>
      {found.length === 0 && <Text size="sm" c="dimmed" mt="xs">No member is called so.</Text>}
      <More
        shown={Math.min(most, found.length)}
        total={found.length}
        what="members"
        more={() => setMost((last) => last + PAGE)}
      />
      {question && <Confirm question={question} onClose={() => setQuestion(null)} />}
    </>
  );
}

interface RowProps {
  member: Member;
  isAdmin: boolean;
  onRemove: (member: Member) => void;
  onSecret: (secret: Secret) => void;
}

function Row({ member, isAdmin, onRemove, onSecret }: RowProps) {
  const { person } = useAccess();
  return (
    <Table.Tr>
      <Table.Td maw={300}>
        <Group gap={6} wrap="nowrap">
          <Text size="sm" truncate title={plain(nameOf(member))}>{plain(nameOf(member))}</Text>
          {member.user_id === person?.id && <Badge size="sm" variant="outline" color="gray" c="dimmed">you</Badge>}
        </Group>
        {member.display_name && member.email && (
          <Text size="xs" c="dimmed" truncate title={plain(member.email)}>{plain(member.email)}</Text>
        )}
      </Table.Td>
      <Table.Td>{isAdmin ? <RoleSelect member={member} /> : member.role}</Table.Td>
      {isAdmin && (
        <Table.Td style={{ whiteSpace: "nowrap" }}>
          {member.last_sign_in_at ? <Ago time={member.last_sign_in_at} /> : "never"}
        </Table.Td>
      )}
      {isAdmin && <Table.Td ta="right">{number(member.keys)}</Table.Td>}
      <Table.Td style={{ whiteSpace: "nowrap" }}>
        <Ago time={member.created_at} />
      </Table.Td>
      {isAdmin && (
        <Table.Td ta="right">
          <Actions member={member} onRemove={onRemove} onSecret={onSecret} />
        </Table.Td>
      )}
    </Table.Tr>
  );
}

function failed(title: string) {
  return (error: Error) => notifications.show({ color: "red", title, message: error.message });
}

function RoleSelect({ member }: { member: Member }) {
  const change = async (role: MemberRole) => {
    await changeRole(member.user_id, role).catch(failed("Not changed"));
    await queryClient.invalidateQueries({ queryKey: ["members"] });
  };
  return (
    <NativeSelect
      size="xs"
      w={104}
      aria-label={`Role of ${plain(nameOf(member))}`}
      data={[...MEMBER_ROLES]}
      value={member.role}
      onChange={({ currentTarget }) => void change(currentTarget.value as MemberRole)}
    />
  );
}

function Actions({ member, onRemove, onSecret }: Omit<RowProps, "isAdmin">) {
  const link = async () => {
    const text = await makeSignInLink(member.user_id);
    onSecret({
      title: `Sign-in link for ${plain(nameOf(member))}`,
      text,
      children:
        "Whoever opens it is signed in as this member, once and within a day, and may then choose a new password.",
    });
  };
  return (
    <Menu position="bottom-end">
      <Menu.Target>
        <ActionIcon variant="subtle" color="gray" aria-label={`More about ${plain(nameOf(member))}`}>
          <IconDots size={16} />
        </ActionIcon>
      </Menu.Target>
      <Menu.Dropdown>
        <Menu.Item onClick={() => void link().catch(failed("No link was made"))}>Make a sign-in link</Menu.Item>
        <Menu.Item color="red" onClick={() => onRemove(member)}>Remove</Menu.Item>
      </Menu.Dropdown>
    </Menu>
  );
}
