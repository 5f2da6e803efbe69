/** The database as the dashboard knows it: the generated types, with what its functions take and answer. */
import type { Choices, RecordKind } from "../../supabase/functions/_shared/constants.ts";
import type { Database as Generated, Json } from "../../supabase/functions/_shared/database.types.ts";
import type { Filters, Results, ViewRows } from "./api/contract.ts";

export * from "../../supabase/functions/_shared/constants.ts";
export type { Json };

type Schema = Generated["public"];

/** Arguments of which the generator knows only that they are JSON. */
interface JsonArguments {
  find_rollouts: { filters: Filters["find_rollouts"]; after: Results["find_rollouts"]["next"] };
  list_tasks: { filters: Filters["list_tasks"]; after: Results["list_tasks"]["next"] };
  request_rollouts: { request: object };
  ingest: { batch: Partial<Record<RecordKind, object[]>> };
}

/** SQL has no argument that cannot be null; which may be, the function says. */
type Arguments<Name extends keyof Schema["Functions"]> = {
  [Argument in keyof Schema["Functions"][Name]["Args"]]:
    | (Name extends keyof JsonArguments ? Argument extends keyof JsonArguments[Name] ? JsonArguments[Name][Argument]
      : Schema["Functions"][Name]["Args"][Argument]
      : Schema["Functions"][Name]["Args"][Argument])
    | null;
};

type Functions = {
  [Name in keyof Schema["Functions"]]: Name extends keyof Results ? { Args: Arguments<Name>; Returns: Results[Name] }
    : Schema["Functions"][Name];
};

/** Where a column takes certain words only, these. */
type Worded<Columns, Words> = {
  [Column in keyof Columns]: Column extends keyof Words ? Words[Column] | Extract<Columns[Column], null>
    : Columns[Column];
};

/** The columns of a table; the generator adds what can be embedded. */
type Columns<Table extends { Row: object; ComputedFields: PropertyKey }> = Omit<Table["Row"], Table["ComputedFields"]>;

type Tables = {
  [Name in keyof Schema["Tables"]]: Omit<Schema["Tables"][Name], "Row"> & {
    Row: Name extends keyof Choices ? Worded<Columns<Schema["Tables"][Name]>, Choices[Name]>
      : Columns<Schema["Tables"][Name]>;
  };
};

type Views = {
  [Name in keyof Schema["Views"]]: Name extends keyof ViewRows ? Omit<Schema["Views"][Name], "Row"> & {
      Row: ViewRows[Name];
    }
    : Schema["Views"][Name];
};

export type Database = Omit<Generated, "public"> & {
  public: Omit<Schema, "Functions" | "Tables" | "Views"> & { Functions: Functions; Tables: Tables; Views: Views };
};

export type Row<Name extends keyof Tables | keyof Views> = (Tables & Views)[Name]["Row"];
