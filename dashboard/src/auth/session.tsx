/** Who looks: a member, someone signed in who is none, or anyone. */
import { isAuthRetryableFetchError, type Session } from "@supabase/supabase-js";
import { createContext, Fragment, type ReactNode, useContext, useEffect, useRef, useState } from "react";
import { Failed } from "@/components/states.tsx";
import type { Config } from "@/config.ts";
import type { MemberRole } from "@/database.ts";
import { line, watch } from "@/live/connection.ts";
import { queryClient, useLive } from "@/live/query.ts";
import { answered, RequestError, supabase } from "@/supabase.ts";

const ASK_AGAIN_MS = 2_000;
const PERSON = ["person"];

/** A member of this workspace. */
export interface Person {
  id: string;
  email: string;
  role: MemberRole;
  name: string | null;
}

interface Access {
  config: Config;
  /** null: nobody signed in; only public runs are seen. */
  person: Person | null;
  /** Who signed in but is no member. */
  stranger: string | null;
  /** Why a sign-in link did not work, or was not used. */
  linkError: string | null;
}

const AccessContext = createContext<Access | null>(null);

export function useAccess(): Access {
  return useContext(AccessContext)!;
}

/** Whether the person may change what an owner made. The database decides; this only hides what it would refuse. */
export function useMayChange(ownerId: string | null | undefined): boolean {
  const { person } = useAccess();
  return person?.role === "admin" || (person?.role === "editor" && person.id === ownerId);
}

/** Why the person may not ask for work or change it; null: they may. The database decides, this only tells in time. */
export function useWhyNot(): string | null {
  const { person } = useAccess();
  if (!person) return "Sign in to do this.";
  return person.role === "viewer" ? "You are a viewer here: ask an admin to make you an editor." : null;
}

async function personOf(session: Session | null): Promise<Person | null> {
  if (!session) return null;
  const { id, email } = session.user;
  const found = await answered(supabase().from("members").select("role, display_name").eq("user_id", id).limit(1));
  const member = found[0];
  return member ? { id, email: email ?? "", role: member.role, name: member.display_name } : null;
}

function nameOf({ user: { email, id } }: Session): string {
  return email ?? id;
}

/** The member behind the present session, as they are now. */
async function readPerson(): Promise<{ id: string; email: string; person: Person | null } | null> {
  const { session } = (await supabase().auth.getSession()).data;
  return session && { id: session.user.id, email: nameOf(session), person: await personOf(session) };
}

/** Who holds this session; while the server cannot tell, ask again. A session that it refuses has ended. */
async function identified(
  session: Session | null,
  onSilence: (error: Error) => void,
): Promise<Person | null | "ended"> {
  for (;;) {
    try {
      return await personOf(session);
    } catch (error) {
      if (error instanceof RequestError && error.isSignedOut) return "ended";
      onSilence(error as Error);
      await new Promise((resolve) => setTimeout(resolve, ASK_AGAIN_MS));
    }
  }
}

/** Whether the server knows this browser's session; while it does not answer, the session counts. */
async function isSignedIn(): Promise<boolean> {
  const { auth } = supabase();
  const { data } = await auth.getSession();
  if (!data.session) return false;
  const { error } = await auth.getUser();
  return !error || isAuthRetryableFetchError(error);
}

/**
 * Sign in with a link, whose tokens are in the part of the URL that no server sees; a sentence says why it was not used.
 *
 * The link may be somebody else's: it changes nothing for who is signed in already.
 */
async function useLink(): Promise<string | null> {
  const given = new URLSearchParams(location.hash.slice(1));
  const [hash, access_token, refresh_token] = ["token_hash", "access_token", "refresh_token"].map((n) => given.get(n));
  if (!hash && !access_token && !given.has("error_code")) return null;
  history.replaceState(history.state, "", location.pathname + location.search);
  if (await isSignedIn()) {
    return "You are signed in already, so this sign-in link was not used. To use it, sign out and open it again.";
  }
  const { auth } = supabase();
  const { error } = hash
    ? await auth.verifyOtp({ token_hash: hash, type: "magiclink" })
    : await auth.setSession({ access_token: access_token ?? "", refresh_token: refresh_token ?? "" });
  return error ? "This sign-in link was used already, or is too old." : null;
}

/** Take part in what the page knows of its visitor; nothing is shown before it is known. */
export function AccessProvider({ config, children }: { config: Config; children: ReactNode }) {
  const [access, setAccess] = useState<Access | null>(null);
  const [silence, setSilence] = useState<Error | null>(null);
  const stranger = useRef<string | null>(null);

  useEffect(() => {
    let linkError: string | null = null;
    let shownFor: string | null | undefined;
    const show = async (session: Session | null) => {
      const id = session?.user.id ?? null;
      if (shownFor === id) return void queryClient.invalidateQueries({ queryKey: PERSON });
      const isSwitch = shownFor !== undefined;
      shownFor = id;
      const found = await identified(session, setSilence);
      const person = found === "ended" ? null : found;
      if (session && !person) {
        // To the database a stranger is less than nobody, who may see public runs.
        stranger.current = found === "ended" ? null : nameOf(session);
        shownFor = null;
        await supabase().auth.signOut({ scope: "local" });
      }
      if (person) stranger.current = null;
      if (isSwitch) queryClient.clear();
      setAccess({ config, person, stranger: stranger.current, linkError });
      if (isSwitch) line.reopen();
      else watch(config);
    };
    const started = useLink().then(async (error) => {
      linkError = error;
      const { data } = await supabase().auth.getSession();
      await show(data.session);
    });
    const { data } = supabase().auth.onAuthStateChange((_event, session) => {
      // Outside of the callback: the client waits for it, and would wait for itself.
      setTimeout(() => void started.then(() => show(session)));
    });
    return () => data.subscription.unsubscribe();
  }, [config]);

  const id = access?.person?.id;
  const latest = useLive(null, [...PERSON, id], readPerson, { enabled: id !== undefined }).data;
  // Roles and names change, and members are removed, while they look on.
  useEffect(() => {
    if (!latest || latest.id !== id) return;
    if (latest.person) return setAccess((last) => last && { ...last, person: latest.person });
    stranger.current = latest.email;
    void supabase().auth.signOut({ scope: "local" });
  }, [latest, id]);

  if (!access) return silence && <Failed error={silence} />;
  // Another person starts with nothing of what the one before saw.
  return (
    <AccessContext value={access}>
      <Fragment key={access.person?.id ?? "nobody"}>{children}</Fragment>
    </AccessContext>
  );
}
