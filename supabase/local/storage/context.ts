/** What every Storage operation needs. */
import type { Claims, GatewayConnection } from "../database.ts";
import { bucketNotFound, fromDatabase } from "./errors.ts";
import type { Signer } from "./signing.ts";
import type { Versions } from "./versions.ts";

export interface Bucket {
  id: string;
  name: string;
  owner: string;
  public: boolean;
  file_size_limit: number | null;
  allowed_mime_types: string[] | null;
  created_at: string;
  updated_at: string;
}

export interface ObjectMetadata {
  eTag: string;
  size: number;
  mimetype: string;
  cacheControl: string;
  lastModified: string;
  contentLength: number;
  httpStatusCode: number;
}

export interface ObjectRow {
  id: string;
  bucket_id: string;
  name: string;
  owner: string | null;
  owner_id: string | null;
  version: string;
  metadata: ObjectMetadata;
  user_metadata: Record<string, unknown> | null;
  created_at: string;
  updated_at: string;
  last_accessed_at: string;
}

type AsCaller = Parameters<GatewayConnection["asCaller"]>[2];
export type Sql = Parameters<AsCaller>[0];

/** A caller at work on this project's storage. */
export class StorageContext {
  constructor(
    readonly connection: GatewayConnection,
    readonly versions: Versions,
    readonly signer: Signer,
    readonly claims: Claims,
    /** Whether the caller had a key or a token at all. */
    readonly isAuthenticated = true,
  ) {}

  /** The same work with somebody else's rights. */
  as(claims: Claims): StorageContext {
    return new StorageContext(this.connection, this.versions, this.signer, claims);
  }

  /** The id that new objects are owned by; a key owns nothing. */
  get owner(): string | null {
    return this.claims.sub ?? null;
  }

  /** Statements with the caller's rights; what policies refuse is told in Storage's words. */
  async asCaller<T>(operation: string, run: (sql: Sql) => Promise<T>): Promise<T> {
    try {
      return await this.connection.asCaller(this.claims, `storage.${operation}`, run);
    } catch (error) {
      throw fromDatabase(error);
    }
  }

  /** Statements with full rights, for what was decided already. */
  get sql() {
    return this.connection.driver;
  }

  /** One writer at a time for a key, so that each knows which version it replaces. */
  async lock(sql: Sql, bucket: string, key: string): Promise<void> {
    await sql`select pg_advisory_xact_lock(hashtextextended(${`${bucket}/${key}`}, 0))`;
  }

  /** A bucket whether or not the caller may see it: its limits hold for everyone. */
  async bucket(id: string): Promise<Bucket> {
    const row = await this.findBucket(id);
    if (!row) throw bucketNotFound();
    return row;
  }

  async findBucket(id: string): Promise<Bucket | undefined> {
    return (await this.sql<Bucket[]>`select * from storage.buckets where id = ${id}`)[0];
  }
}
