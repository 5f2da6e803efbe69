/** Every outside package of the functions, pinned once; the Supabase CLI and the gateway both read these. */
export {
  createAdminClient,
  createContextClient,
  extractCredentials,
  resolveEnv,
  verifyCredentials,
} from "npm:@supabase/server@1.4.1/core";
export type { SupabaseClient } from "npm:@supabase/supabase-js@2.119.0";
export * as v from "npm:valibot@1.5.0";
export { parquetMetadataAsync, parquetReadObjects } from "npm:hyparquet@1.31.5";
export type { AsyncBuffer, FileMetaData } from "npm:hyparquet@1.31.5";
export { decompress as decompressZstd } from "npm:fzstd@0.1.1";
