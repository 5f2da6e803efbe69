/** What the list of runs shows, as its URL says it. */
import type { RunFilters } from "@/api/runs.ts";
import { DEFAULT_COLUMNS } from "./columns.tsx";

export const NO_FILTERS: RunFilters = {
  search: "",
  status: [],
  algorithm: null,
  environment: null,
  owner: null,
  from: null,
  to: null,
};

export const DEFAULT_VIEW = {
  search: "",
  status: [] as string[],
  algorithm: null as string | null,
  environment: null as string | null,
  owner: null as string | null,
  from: null as string | null,
  to: null as string | null,
  sort: "created_at",
  direction: "desc",
  page: 1,
  columns: DEFAULT_COLUMNS,
  selected: [] as string[],
};

export type RunsView = typeof DEFAULT_VIEW;

export function filtersOf({ search, status, algorithm, environment, owner, from, to }: RunsView): RunFilters {
  return { search, status, algorithm, environment, owner, from, to };
}

export function isFiltered(filters: RunFilters): boolean {
  return JSON.stringify({ ...filters, search: filters.search.trim() }) !== JSON.stringify(NO_FILTERS);
}
