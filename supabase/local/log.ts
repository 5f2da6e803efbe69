/** Logging: everything to stderr, since stdout carries the line that says the gateway is ready. */
import { RelationNotFoundError } from "@supabase/lite";
import { type DatabaseError, statusOfSqlstate } from "./errors.ts";

/** Send all output to stderr, and leave out what the caller was told and is theirs to mend. */
export function redirectLog(): void {
  const write = console.error.bind(console);
  console.log =
    console.info =
    console.debug =
    console.warn =
      write;
  // Supabase Lite logs every database error it answers, a caller's mistakes included.
  console.error = (...parts: unknown[]) => {
    if (parts.length === 1 && isCallersMistake(parts[0])) return;
    write(...parts);
  };
}

function isCallersMistake(error: unknown): boolean {
  if (error instanceof RelationNotFoundError) return true;
  const { code, detail } = (error ?? {}) as DatabaseError;
  if (typeof code !== "string") return false;
  if (code === "PGRST") return JSON.parse(String(detail ?? "{}")).status < 500;
  return /^[0-9A-Z]{5}$/.test(code) && statusOfSqlstate(code) < 500;
}
