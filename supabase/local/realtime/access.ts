/** Who may hear and speak in a private channel: whom the policies of `realtime.messages` let, as on hosted projects. */
import { type Claims, type GatewayConnection, OWN_WORK } from "../database.ts";
import { isUnavailable } from "../errors.ts";

export interface Rights {
  broadcast: boolean;
  presence: boolean;
}

export interface Access {
  hears: Rights;
  speaks: Rights;
}

const EXTENSIONS = ["broadcast", "presence"] as const;
export const EVERYTHING: Access = {
  hears: { broadcast: true, presence: true },
  speaks: { broadcast: true, presence: true },
};
const NOTHING: Rights = { broadcast: false, presence: false };

/** Carries what was found out of a transaction of which nothing is kept. */
class Found extends Error {
  constructor(readonly access: Access) {
    super("nothing of this is kept");
  }
}

/** Ask the policies, by a message of each kind that is never stored. */
export async function accessTo(connection: GatewayConnection, claims: Claims, topic: string): Promise<Access> {
  const settings: [string, string][] = [["realtime.topic", topic]];
  try {
    return await connection.asCaller(claims, OWN_WORK, async (sql): Promise<Access> => {
      const speaks = { ...NOTHING };
      for (const extension of EXTENSIONS) {
        speaks[extension] = await sql.savepoint(async (inner) => {
          await inner`insert into realtime.messages (topic, extension) values (${topic}, ${extension})`;
          return true;
        }).catch((error) => {
          if (isUnavailable(error)) throw error;
          return false;
        });
      }
      await sql`select set_config('role', 'service_role', true)`;
      await sql`delete from realtime.messages where realtime.messages.topic = ${topic}`;
      await sql`insert into realtime.messages (topic, extension) select ${topic}, unnest(${EXTENSIONS}::text[])`;
      await sql`select set_config('role', ${claims.role}, true)`;
      const heard = await sql`select m.extension from realtime.messages m where m.topic = ${topic}`.catch((error) => {
        if (error.code === "42501") return [];
        throw error;
      });
      const hears = { ...NOTHING };
      for (const { extension } of heard) hears[extension as keyof Rights] = true;
      throw new Found({ hears, speaks });
    }, settings);
  } catch (error) {
    if (error instanceof Found) return error.access;
    throw error;
  }
}
