/** One's own keys, for trainers and workers on other machines. */
import { Alert, Button, Code, Group, Modal, Select, Stack, Text, TextInput } from "@mantine/core";
import { IconPlus } from "@tabler/icons-react";
import { useMutation } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { createKey } from "@/api/members.ts";
import { type Person, useAccess } from "@/auth/session.tsx";
import { plain } from "@/components/agent_text.tsx";
import { SignInLink } from "@/auth/sign_in_link.tsx";
import { KeyList } from "@/components/keys/list.tsx";
import { PageHead } from "@/components/page.tsx";
import { type Secret, ShownOnce } from "@/components/shown_once.tsx";
import { Empty } from "@/components/states.tsx";
import { MEMBER_ROLES, type MemberRole } from "@/database.ts";
import { queryClient } from "@/live/query.ts";

const LASTS = [
  { value: "1", label: "1 day" },
  { value: "30", label: "30 days" },
  { value: "90", label: "90 days" },
  { value: "365", label: "1 year" },
  { value: "never", label: "until it is revoked" },
];

const MEANS: Record<MemberRole, string> = {
  viewer: "viewer: reads",
  editor: "editor: records, and changes what is yours",
  admin: "admin: changes everything but members and keys",
};

export default function KeysPage() {
  const { config, person } = useAccess();
  const [isMaking, setMaking] = useState(false);
  return (
    <>
      <PageHead
        title="Keys"
        aside={person && config.embedded && (
          <Button
            size="xs"
            leftSection={<IconPlus size={16} aria-hidden />}
            onClick={() => setMaking(true)}
          >
            New key
          </Button>
        )}
      >
        <Text size="sm" c="dimmed">
          With a key a trainer or worker on another machine acts as you. What it records is yours.
        </Text>
      </PageHead>
      {config.embedded
        ? <Mine person={person} isMaking={isMaking} onMade={() => setMaking(false)} />
        : (
          <Empty title="Hosted projects accept only their own keys">
            Trainers and workers use the secret key of the project there.
          </Empty>
        )}
    </>
  );
}

function Mine({ person, ...rest }: { person: Person | null; isMaking: boolean; onMade: () => void }) {
  if (person) return <Keys person={person} {...rest} />;
  return (
    <Empty title="Keys are for members">
      <SignInLink /> to make one.
    </Empty>
  );
}

function Keys({ person, isMaking, onMade }: { person: Person; isMaking: boolean; onMade: () => void }) {
  const { config } = useAccess();
  const [secret, setSecret] = useState<Secret | null>(null);
  return (
    <>
      <KeyList memberId={person.id}>
        <Empty title="No active key">
          On the other machine, <Code>SUPABASE_URL={config.supabaseUrl}</Code> and a key as <Code>SUPABASE_KEY</Code>
          {" "}
          are all that is needed.
        </Empty>
      </KeyList>
      {isMaking && <NewKey person={person} onClose={onMade} onMade={setSecret} />}
      {secret && <ShownOnce secret={secret} onClose={() => setSecret(null)} />}
    </>
  );
}

interface NewProps {
  person: Person;
  onClose: () => void;
  onMade: (secret: Secret) => void;
}

function NewKey({ person, onClose, onMade }: NewProps) {
  const { config } = useAccess();
  const [name, setName] = useState("");
  const [lasts, setLasts] = useState("90");
  const roles = MEMBER_ROLES.slice(0, MEMBER_ROLES.indexOf(person.role) + 1);
  const [role, setRole] = useState<MemberRole>(person.role === "viewer" ? "viewer" : "editor");
  const make = useMutation<string, Error>({
    mutationFn: () => createKey(name, role, lasts === "never" ? null : Number(lasts)),
    onSuccess: async (key) => {
      await queryClient.invalidateQueries({ queryKey: ["keys"] });
      onClose();
      onMade({
        title: `The key ${plain(name.trim())}`,
        text: `SUPABASE_URL=${config.supabaseUrl}\nSUPABASE_KEY=${key}`,
        children: (
          <>
            Put these lines into the environment of the trainer or worker, or into its <Code>.env.supabase</Code>.
          </>
        ),
      });
    },
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (name.trim()) make.mutate();
  };
  return (
    <Modal opened onClose={onClose} title="New key" closeButtonProps={{ "aria-label": "Close" }}>
      <form onSubmit={submit}>
        <Stack>
          <TextInput
            label="Name"
            description="What uses it, such as the machine."
            required
            maxLength={200}
            value={name}
            onChange={({ currentTarget }) => setName(currentTarget.value)}
            data-autofocus
          />
          <Select
            label="Role"
            allowDeselect={false}
            data={roles.map((value) => ({ value, label: MEANS[value] }))}
            value={role}
            onChange={(value) => setRole(value as MemberRole)}
          />
          <Select
            label="Lasts"
            allowDeselect={false}
            data={LASTS}
            value={lasts}
            onChange={(value) => setLasts(value!)}
          />
          {make.error && <Alert color="red" role="alert">{make.error.message}</Alert>}
          <Group justify="flex-end">
            <Button variant="default" onClick={onClose}>Cancel</Button>
            <Button type="submit" loading={make.isPending} disabled={!name.trim()}>Make the key</Button>
          </Group>
        </Stack>
      </form>
    </Modal>
  );
}
