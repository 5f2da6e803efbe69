/** Where the link of an invitation leads: choose a name and a password, and be a member. */
import { Alert, Button, Center, Group, Paper, PasswordInput, Stack, Text, TextInput, Title } from "@mantine/core";
import { useDocumentTitle } from "@mantine/hooks";
import { IconStack2 } from "@tabler/icons-react";
import { useMutation, useQuery } from "@tanstack/react-query";
import { type FormEvent, type ReactNode, useState } from "react";
import { Link, useNavigate } from "react-router";
import { acceptInvitation, findInvitation, type FoundInvitation } from "@/api/members.ts";
import { useAccess } from "@/auth/session.tsx";
import { plain } from "@/components/agent_text.tsx";
import { Failed, Loading } from "@/components/states.tsx";
import type { MemberRole } from "@/database.ts";
import { supabase } from "@/supabase.ts";
import { until } from "@/view/format.ts";

const LEAST_PASSWORD_LENGTH = 8;

const MAY: Record<MemberRole, string> = {
  viewer: "see all runs of this workspace",
  editor: "see all runs of this workspace, record your own, and change what is yours",
  admin: "see and change everything in this workspace, and manage its members",
};

export default function InvitationPage() {
  useDocumentTitle("Invitation · OpenManus-RL");
  // Read once: after that it is in no address that could be looked over or passed on.
  const [token] = useState(takeToken);
  const { person } = useAccess();
  return (
    <Center mih="100vh" p="md">
      <Stack w="100%" maw={440} gap="md">
        <Group gap={8} justify="center">
          <IconStack2 size={28} aria-hidden />
          <Text fw={650} size="lg">OpenManus-RL</Text>
        </Group>
        <Paper withBorder p="lg" component="main">
          {person ? <SignedIn name={person.name ?? person.email} /> : <Invitation token={token} />}
        </Paper>
      </Stack>
    </Center>
  );
}

function takeToken(): string {
  const key = "openmanus-rl invitation";
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  if (token) {
    // So that reading the page again does not lose it; it ends with the tab.
    sessionStorage.setItem(key, token);
    history.replaceState(history.state, "", location.pathname + location.search);
  }
  return token ?? sessionStorage.getItem(key) ?? "";
}

function Heading({ title, children }: { title: string; children?: ReactNode }) {
  return (
    <Stack gap={4} mb="md">
      <Title order={1} size="h3">{title}</Title>
      {children && <Text size="sm" c="dimmed" component="div">{children}</Text>}
    </Stack>
  );
}

function SignedIn({ name }: { name: string }) {
  return (
    <>
      <Heading title="You are signed in already">
        as {plain(name)}. An invitation is for who has no account here, or is no member yet.
      </Heading>
      <Group>
        <Button component={Link} to="/runs">Go to the runs</Button>
        <Button variant="default" onClick={() => void supabase().auth.signOut({ scope: "local" })}>
          Sign out and accept it as another
        </Button>
      </Group>
    </>
  );
}

function Invitation({ token }: { token: string }) {
  const query = useQuery<FoundInvitation, Error>({
    queryKey: ["invitation", token],
    queryFn: ({ signal }) => findInvitation(token, signal),
  });
  if (query.error) return <Failed error={query.error} retry={() => void query.refetch()} />;
  if (!query.data) return <Loading what="Reading the invitation" />;
  return query.data.state === "open"
    ? <Form token={token} invitation={query.data} />
    : <Ended state={query.data.state} />;
}

const ENDED: Record<Exclude<FoundInvitation["state"], "open">, [title: string, text: string]> = {
  used: ["This invitation was used", "Each works once. If it was you, sign in; if not, tell an admin."],
  revoked: ["This invitation was withdrawn", "An admin revoked it, or made a newer link. Ask for a new one."],
  expired: ["This invitation has expired", "Ask an admin for a new one."],
  unknown: ["This is no invitation", "The link may be incomplete: copy all of it, or ask an admin for a new one."],
};

function Ended({ state }: { state: keyof typeof ENDED }) {
  const [title, text] = ENDED[state];
  return (
    <>
      <Heading title={title} />
      <Alert color="orange" variant="light" role="alert" mb="md">{text}</Alert>
      <Group>
        <Button component={Link} to="/sign-in">Sign in</Button>
        <Button component={Link} to="/runs" variant="default">Public runs</Button>
      </Group>
    </>
  );
}

function Form({ token, invitation }: { token: string; invitation: FoundInvitation }) {
  const email = invitation.email!;
  const isKnown = invitation.has_account === true;
  const [name, setName] = useState("");
  const [password, setPassword] = useState("");
  const navigate = useNavigate();
  const join = useMutation<void, Error>({
    mutationFn: async () => {
      await acceptInvitation(token, name, password);
      sessionStorage.removeItem("openmanus-rl invitation");
      await supabase().auth.signInWithPassword({ email, password });
    },
    onSuccess: () => navigate("/runs", { replace: true }),
  });
  const isShort = password.length < LEAST_PASSWORD_LENGTH;
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (isKnown || !isShort) join.mutate();
  };
  return (
    <>
      <Heading title={isKnown ? "Join the workspace" : "Welcome"}>
        You are invited as {invitation.role}: you may {MAY[invitation.role!]}. The invitation ends{" "}
        {until(invitation.expires_at!)}.
      </Heading>
      <form onSubmit={submit}>
        <Stack>
          <TextInput label="E-mail" type="email" value={email} readOnly autoComplete="username" />
          <TextInput
            label="Name"
            description="As the others will see you."
            autoComplete="name"
            maxLength={200}
            value={name}
            onChange={({ currentTarget }) => setName(currentTarget.value)}
            autoFocus
          />
          <PasswordInput
            label="Password"
            description={isKnown
              ? "This address has an account here already: give its password."
              : `At least ${LEAST_PASSWORD_LENGTH} characters. You sign in with it from now on.`}
            required
            minLength={LEAST_PASSWORD_LENGTH}
            autoComplete={isKnown ? "current-password" : "new-password"}
            value={password}
            onChange={({ currentTarget }) => setPassword(currentTarget.value)}
          />
          {join.error && <Alert color="red" role="alert">{join.error.message}</Alert>}
          <Button type="submit" loading={join.isPending}>{isKnown ? "Join" : "Make my account"}</Button>
        </Stack>
      </form>
    </>
  );
}
