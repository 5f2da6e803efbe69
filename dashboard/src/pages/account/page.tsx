/** One's own account: name, address and password. */
import { Alert, Button, Group, PasswordInput, Stack, Text, TextInput } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { useMutation } from "@tanstack/react-query";
import { type FormEvent, type ReactNode, useState } from "react";
import { changeAccount, setDisplayName } from "@/api/members.ts";
import { type Person, useAccess } from "@/auth/session.tsx";
import { SignInLink } from "@/auth/sign_in_link.tsx";
import { PageHead, Section } from "@/components/page.tsx";
import { Empty } from "@/components/states.tsx";
import { queryClient } from "@/live/query.ts";

const LEAST_PASSWORD_LENGTH = 8;

export default function AccountPage() {
  const { person } = useAccess();
  return (
    <>
      <PageHead title="Account">
        {person && <Text size="sm" c="dimmed">{person.email} · {person.role}</Text>}
      </PageHead>
      {person
        ? (
          <Stack gap="md" maw={560}>
            <Name person={person} />
            <Password />
            <Address person={person} />
          </Stack>
        )
        : (
          <Empty title="You have no account here">
            <SignInLink />, or ask an admin for an invitation.
          </Empty>
        )}
    </>
  );
}

interface ChangeProps {
  title: string;
  action: string;
  done: string;
  run: () => Promise<void>;
  isReady: boolean;
  children: ReactNode;
}

function Change({ title, action, done, run, isReady, children }: ChangeProps) {
  const change = useMutation<void, Error>({
    mutationFn: run,
    onSuccess: () => void notifications.show({ message: done }),
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (isReady) change.mutate();
  };
  return (
    <Section title={title}>
      <form onSubmit={submit}>
        <Stack>
          {children}
          {change.error && <Alert color="red" role="alert">{change.error.message}</Alert>}
          <Group>
            <Button type="submit" variant="default" loading={change.isPending} disabled={!isReady}>{action}</Button>
          </Group>
        </Stack>
      </form>
    </Section>
  );
}

function Name({ person }: { person: Person }) {
  const [name, setName] = useState(person.name ?? "");
  const run = async () => {
    await setDisplayName(name);
    await Promise.all(["members", "person"].map((key) => queryClient.invalidateQueries({ queryKey: [key] })));
  };
  return (
    <Change title="Name" action="Change the name" done="Your name is changed." run={run} isReady>
      <TextInput
        label="Name"
        description="As the others see you."
        maxLength={200}
        value={name}
        onChange={({ currentTarget }) => setName(currentTarget.value)}
      />
    </Change>
  );
}

function Current({ value, onChange }: { value: string; onChange: (value: string) => void }) {
  return (
    <PasswordInput
      label="Current password"
      description="Not needed within ten minutes after you signed in by a link."
      autoComplete="current-password"
      value={value}
      onChange={({ currentTarget }) => onChange(currentTarget.value)}
    />
  );
}

function Password() {
  const [current, setCurrent] = useState("");
  const [password, setPassword] = useState("");
  const run = async () => {
    await changeAccount({ password }, current);
    setCurrent("");
    setPassword("");
  };
  return (
    <Change
      title="Password"
      action="Change the password"
      done="Your password is changed. Everywhere else you are signed out."
      run={run}
      isReady={password.length >= LEAST_PASSWORD_LENGTH}
    >
      <Current value={current} onChange={setCurrent} />
      <PasswordInput
        label="New password"
        description={`At least ${LEAST_PASSWORD_LENGTH} characters.`}
        autoComplete="new-password"
        value={password}
        onChange={({ currentTarget }) => setPassword(currentTarget.value)}
      />
    </Change>
  );
}

function Address({ person }: { person: Person }) {
  const { config } = useAccess();
  const [current, setCurrent] = useState("");
  const [email, setEmail] = useState(person.email);
  const run = async () => {
    await changeAccount({ email }, current);
    setCurrent("");
  };
  return (
    <Change
      title="E-mail address"
      action="Change the address"
      done={config.embedded ? "From now on you sign in with the new address." : "Open the link that was sent to you."}
      run={run}
      isReady={email.includes("@") && email !== person.email}
    >
      {config.embedded && <Current value={current} onChange={setCurrent} />}
      <TextInput
        label="E-mail"
        type="email"
        autoComplete="email"
        value={email}
        onChange={({ currentTarget }) => setEmail(currentTarget.value)}
      />
    </Change>
  );
}
