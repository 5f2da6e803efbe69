/** The way to sign in, and back to the page where one was. */
import { Link, useLocation } from "react-router";

/** What the page to sign in is told of the page before it. */
export interface CameFrom {
  from?: string;
}

/** Of the page that one is on; on the page to sign in itself, of the one before it. */
export function useCameFrom(): CameFrom {
  const { pathname, search, hash, state } = useLocation();
  return pathname === "/sign-in" ? state as CameFrom | null ?? {} : { from: pathname + search + hash };
}

export function SignInLink({ children = "Sign in" }: { children?: string }) {
  const cameFrom = useCameFrom();
  return <Link to="/sign-in" state={cameFrom}>{children}</Link>;
}
