import { Alert, Button, Code, Paper, PasswordInput, Stack, Text, TextInput, Title } from "@mantine/core";
import { useDocumentTitle } from "@mantine/hooks";
import { isAuthRetryableFetchError } from "@supabase/supabase-js";
import { type FormEvent, useState } from "react";
import { Link, Navigate } from "react-router";
import { RequestError, supabase } from "@/supabase.ts";
import { useAccess } from "./session.tsx";
import { useCameFrom } from "./sign_in_link.tsx";

/** How to get in: by a password, or by a link, which the embedded stack prints and others send. */
export function SignInPage() {
  const { config, person, linkError } = useAccess();
  const { from } = useCameFrom();
  useDocumentTitle("Sign in · OpenManus-RL");
  if (person) return <Navigate to={from ?? "/runs"} replace />;
  return (
    <Stack maw={440} mx="auto" mt="xl" gap="md">
      <Title order={1} size="h2">Sign in</Title>
      {linkError && <Alert color="red" role="alert">{linkError}</Alert>}
      <ByPassword sendsLinks={!config.embedded} />
      {config.embedded && <ByLink />}
      <Text size="sm">
        Runs that are public are <Link to="/runs">open to everyone</Link>.
      </Text>
    </Stack>
  );
}

/** Said to someone who signed in but is no member. */
export function NotAMember({ who }: { who: string }) {
  return (
    <>
      {who} is not a member of this workspace, so only public runs are shown. An admin makes a member with{" "}
      <Code>openmanus-rl members add {who} --role viewer</Code>, or invites you on the page Members; then sign in again.
    </>
  );
}

function ByLink() {
  return (
    <Paper withBorder p="md">
      <Text size="sm">
        <strong>Is the stack yours?</strong> Open the link that <Code>openmanus-rl up</Code>{" "}
        printed. Each link signs in once; a new one is printed on the machine where the stack runs by
      </Text>
      <Code block mt="xs">openmanus-rl dashboard</Code>
      <Text size="sm" mt="sm">
        <strong>Password forgotten, or no account yet?</strong>{" "}
        Ask an admin for a link: they make one on the page Members, or with <Code>openmanus-rl members link</Code> and
        {" "}
        <Code>openmanus-rl members invite</Code>.
      </Text>
    </Paper>
  );
}

function ByPassword({ sendsLinks }: { sendsLinks: boolean }) {
  const [email, setEmail] = useState("");
  const [password, setPassword] = useState("");
  const [problem, setProblem] = useState<string | null>(null);
  const [sent, setSent] = useState(false);
  const [busy, setBusy] = useState(false);

  const submit = async (event: FormEvent) => {
    event.preventDefault();
    setBusy(true);
    setProblem(null);
    const auth = supabase().auth;
    const { error } = password || !sendsLinks
      ? await auth.signInWithPassword({ email, password })
      : await auth.signInWithOtp({ email, options: { shouldCreateUser: false, emailRedirectTo: document.baseURI } });
    setBusy(false);
    if (error) setProblem(isAuthRetryableFetchError(error) ? RequestError.offline().message : error.message);
    else if (!password) setSent(true);
  };

  return (
    <Paper withBorder p="md" component="form" onSubmit={submit}>
      <Stack>
        <TextInput
          label="E-mail"
          type="email"
          required
          autoComplete="username"
          value={email}
          onChange={(event) => setEmail(event.currentTarget.value)}
        />
        <PasswordInput
          label="Password"
          description={sendsLinks ? "Leave it empty to be sent a link." : undefined}
          required={!sendsLinks}
          autoComplete="current-password"
          value={password}
          onChange={(event) => setPassword(event.currentTarget.value)}
        />
        {problem && <Alert color="red" role="alert">{problem}</Alert>}
        {sent && <Alert color="green" role="status">A link is on its way to {email}.</Alert>}
        <Button type="submit" loading={busy}>{password || !sendsLinks ? "Sign in" : "Send me a link"}</Button>
      </Stack>
    </Paper>
  );
}
