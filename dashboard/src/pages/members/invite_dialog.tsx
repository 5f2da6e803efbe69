/** Inviting somebody: an address, a role, and a link to send. */
import { Alert, Button, Group, Modal, Select, Stack, Text, TextInput } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { type Invited, inviteMember } from "@/api/members.ts";
import type { Secret } from "@/components/shown_once.tsx";
import { MEMBER_ROLES, type MemberRole } from "@/database.ts";
import { queryClient } from "@/live/query.ts";

const MEANS: Record<MemberRole, string> = {
  viewer: "viewer: reads everything",
  editor: "editor: also records, and changes what is theirs",
  admin: "admin: changes everything, and manages members",
};

/** The link of an invitation, to be sent. */
export function invited({ email, link }: Invited): Secret {
  return {
    title: `Invitation for ${email}`,
    text: link,
    children:
      "Send this link to them, by a way that only they read: whoever opens it first becomes the member. It works once.",
  };
}

export function InviteDialog({ onClose, onInvited }: { onClose: () => void; onInvited: (secret: Secret) => void }) {
  const [email, setEmail] = useState("");
  const [role, setRole] = useState<MemberRole>("editor");
  const [days, setDays] = useState("7");
  const invite = useMutation<Invited, Error>({
    mutationFn: () => inviteMember(email, role, Number(days)),
    onSuccess: async (made) => {
      await queryClient.invalidateQueries({ queryKey: ["invitations"] });
      onClose();
      onInvited(invited(made));
    },
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    invite.mutate();
  };
  return (
    <Modal opened onClose={onClose} title="Invite somebody" closeButtonProps={{ "aria-label": "Close" }}>
      <form onSubmit={submit}>
        <Stack>
          <TextInput
            label="E-mail"
            type="email"
            required
            value={email}
            onChange={({ currentTarget }) => setEmail(currentTarget.value)}
            data-autofocus
          />
          <Select
            label="Role"
            allowDeselect={false}
            data={MEMBER_ROLES.map((value) => ({ value, label: MEANS[value] }))}
            value={role}
            onChange={(value) => setRole(value as MemberRole)}
          />
          <Select
            label="The link lasts"
            allowDeselect={false}
            data={[{ value: "1", label: "1 day" }, { value: "7", label: "7 days" }, { value: "30", label: "30 days" }]}
            value={days}
            onChange={(value) => setDays(value!)}
          />
          <Text size="xs" c="dimmed">No e-mail is sent: you get a link. A former link of the same address ends.</Text>
          {invite.error && <Alert color="red" role="alert">{invite.error.message}</Alert>}
          <Group justify="flex-end">
            <Button variant="default" onClick={onClose}>Cancel</Button>
            <Button type="submit" loading={invite.isPending} disabled={!email.trim()}>Make the link</Button>
          </Group>
        </Stack>
      </form>
    </Modal>
  );
}
