/** Queries that stay true: read again when what they show changes. */
import {
  hashKey,
  keepPreviousData,
  QueryClient,
  useInfiniteQuery,
  useQueries,
  useQuery,
  type UseQueryResult,
} from "@tanstack/react-query";
import { RequestError } from "@/supabase.ts";
import { Refresher, type Subject } from "./refresher.ts";

const RETRIES = 2;

export const queryClient = new QueryClient({
  defaultOptions: {
    queries: {
      // The refresher knows when something changed; time alone is no reason to read again.
      staleTime: Infinity,
      refetchOnWindowFocus: false,
      refetchOnReconnect: false,
      networkMode: "always",
      retry: (count, error) => error instanceof RequestError && error.isOffline && count < RETRIES,
      retryDelay: (attempt) => Math.min(500 * 2 ** attempt, 8_000),
    },
  },
});

export const refresher = new Refresher(queryClient);

type Key = readonly unknown[];
type Read<T> = (signal: AbortSignal) => Promise<T>;

async function timed<T>(key: Key, read: () => Promise<T>): Promise<T> {
  const started = performance.now();
  const data = await read();
  refresher.timed(hashKey(key), performance.now() - started);
  return data;
}

interface Options {
  enabled?: boolean;
  /** Show the last answer while another is read, as when a filter changes. */
  keep?: boolean;
  /** Read again after so long, too: that something has not happened sends no signal. */
  everyMs?: number;
}

/** Read something of a subject, and again whenever the subject changes. */
export function useLive<T>(subject: Subject, key: Key, read: Read<T>, options: Options = {}): UseQueryResult<T, Error> {
  return useQuery<T, Error>({
    queryKey: key,
    queryFn: ({ signal }) => timed(key, () => read(signal)),
    meta: { subject },
    enabled: options.enabled,
    placeholderData: options.keep ? keepPreviousData : undefined,
    refetchInterval: options.everyMs,
  });
}

interface Reading<T> {
  subject: Subject;
  key: Key;
  read: Read<T>;
}

/** Read the same of several subjects, each again when it changes. */
export function useLiveMany<T>(readings: Reading<T>[]): UseQueryResult<T, Error>[] {
  return useQueries({
    queries: readings.map(({ subject, key, read }) => ({
      queryKey: key,
      queryFn: ({ signal }: { signal: AbortSignal }) => timed(key, () => read(signal)),
      meta: { subject },
    })),
  });
}

/** Read a list page by page; a change reads the pages that are shown again. */
export function useLivePages<Page, Cursor>(
  subject: Subject,
  key: Key,
  read: (cursor: Cursor | null, signal: AbortSignal) => Promise<Page>,
  next: (page: Page) => Cursor | null,
  options: Options = {},
) {
  return useInfiniteQuery({
    queryKey: key,
    queryFn: ({ pageParam, signal }) => timed(key, () => read(pageParam as Cursor | null, signal)),
    initialPageParam: null as Cursor | null,
    getNextPageParam: (page: Page) => next(page),
    meta: { subject },
    enabled: options.enabled,
    placeholderData: options.keep ? keepPreviousData : undefined,
  });
}
