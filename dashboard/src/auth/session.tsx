/** Who looks: a member, someone signed in who is none, or anyone. */
import type { Session } from "@supabase/supabase-js";
import { createContext, type ReactNode, useContext, useEffect, useState } from "react";
import type { Config } from "@/config.ts";
import { reopen } from "@/live/connection.ts";
import { queryClient } from "@/live/query.ts";
import { answered, supabase } from "@/supabase.ts";

export type Role = "viewer" | "editor" | "admin";

export interface Person {
  id: string;
  email: string;
  /** null: signed in, but not a member of this workspace. */
  role: Role | null;
  name: string | null;
}

interface Access {
  config: Config;
  /** null: nobody signed in; only public runs are seen. */
  person: Person | null;
  /** Why a sign-in link did not work. */
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

async function personOf(session: Session | null): Promise<Person | null> {
  if (!session) return null;
  const { id, email } = session.user;
  const found = await answered(supabase().from("members").select("role, display_name").eq("user_id", id).limit(1));
  const member = found[0];
  return { id, email: email ?? "", role: (member?.role as Role) ?? null, name: member?.display_name ?? null };
}

/** Use up the token of a sign-in link, which is in the part of the URL that no server sees. */
async function useLink(): Promise<string | null> {
  const given = new URLSearchParams(location.hash.slice(1));
  const token = given.get("token_hash");
  if (!token) return null;
  history.replaceState(history.state, "", location.pathname + location.search);
  const { error } = await supabase().auth.verifyOtp({ token_hash: token, type: "magiclink" });
  return error ? "This sign-in link was used already, or is too old." : null;
}

/** Take part in what the page knows of its visitor; nothing is shown before it is known. */
export function AccessProvider({ config, children }: { config: Config; children: ReactNode }) {
  const [access, setAccess] = useState<Access | null>(null);

  useEffect(() => {
    let linkError: string | null = null;
    let shownFor: string | null | undefined;
    const show = async (session: Session | null) => {
      const id = session?.user.id ?? null;
      if (shownFor === id) return;
      const isSwitch = shownFor !== undefined;
      shownFor = id;
      const person = await personOf(session).catch(() => session && { id: id!, email: "", role: null, name: null });
      if (isSwitch) {
        queryClient.clear();
        reopen();
      }
      setAccess({ config, person, linkError });
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

  return access && <AccessContext value={access}>{children}</AccessContext>;
}
