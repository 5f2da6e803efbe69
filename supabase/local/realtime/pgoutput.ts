/** What changed, as Postgres writes it for logical replication: the messages of its plugin `pgoutput`, version 1. */

/** A column of a replicated table. */
export interface Column {
  name: string;
  /** Whether it is of the replica identity, mostly the primary key. */
  isKey: boolean;
  typeId: number;
}

export interface Relation {
  id: number;
  schema: string;
  table: string;
  columns: Column[];
}

/** Values as Postgres writes them; a column that is absent was not changed and is stored elsewhere (TOAST). */
export type Tuple = Map<string, string | null>;

export interface Change {
  relation: Relation;
  type: "INSERT" | "UPDATE" | "DELETE";
  record: Tuple | null;
  /** What is known of the row as it was: its key if that changed or the row is gone, all of it with REPLICA IDENTITY FULL. */
  old: Tuple | null;
  committedAt: Date;
}

const POSTGRES_EPOCH_MS = Date.UTC(2000, 0, 1);

class Reader {
  readonly #view: DataView;
  readonly #bytes: Uint8Array;
  #at = 0;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }

  letter = () => String.fromCharCode(this.#view.getUint8(this.#at++));
  int8 = () => this.#view.getUint8(this.#at++);
  int16 = () => this.#view.getInt16((this.#at += 2) - 2);
  int32 = () => this.#view.getInt32((this.#at += 4) - 4);
  uint32 = () => this.#view.getUint32((this.#at += 4) - 4);
  int64 = () => this.#view.getBigInt64((this.#at += 8) - 8);

  text(length: number): string {
    return new TextDecoder().decode(this.#bytes.subarray(this.#at, this.#at += length));
  }

  string(): string {
    const text = this.text(this.#bytes.indexOf(0, this.#at) - this.#at);
    this.#at++;
    return text;
  }
}

/** Reads messages in their order: a table is described before its first change, a transaction dated before its own. */
export class Decoder {
  readonly #relations = new Map<number, Relation>();
  #committedAt = new Date(0);

  /** The change that a message tells, or null for one that tells something else. */
  read(message: Uint8Array): Change | null {
    const reader = new Reader(message);
    const kind = reader.letter();
    switch (kind) {
      case "B":
        reader.int64();
        this.#committedAt = new Date(POSTGRES_EPOCH_MS + Number(reader.int64() / 1000n));
        return null;
      case "R":
        this.#describe(reader);
        return null;
      case "I":
      case "U":
      case "D":
        return this.#change(kind, reader);
      default:
        return null;
    }
  }

  #describe(reader: Reader): void {
    const [id, schema, table] = [reader.uint32(), reader.string(), reader.string()];
    reader.int8();
    const columns = Array.from({ length: reader.int16() }, () => {
      const [isKey, name, typeId] = [(reader.int8() & 1) === 1, reader.string(), reader.uint32()];
      reader.int32();
      return { name, isKey, typeId };
    });
    this.#relations.set(id, { id, schema, table, columns });
  }

  #change(kind: "I" | "U" | "D", reader: Reader): Change | null {
    const relation = this.#relations.get(reader.uint32());
    if (!relation) return null;
    const { columns } = relation;
    let [record, old]: [Tuple | null, Tuple | null] = [null, null];
    let part = reader.letter();
    if (part === "K" || part === "O") {
      old = readTuple(reader, part === "K" ? columns.filter(({ isKey }) => isKey) : columns, columns);
      if (kind === "U") part = reader.letter();
    }
    if (part === "N") record = readTuple(reader, columns, columns);
    const type = ({ I: "INSERT", U: "UPDATE", D: "DELETE" } as const)[kind];
    return { relation, type, record, old, committedAt: this.#committedAt };
  }
}

/** A tuple has every column, also where only some of them say something. */
function readTuple(reader: Reader, meant: Column[], columns: Column[]): Tuple {
  const count = reader.int16();
  const tuple: Tuple = new Map();
  for (const column of columns.slice(0, count)) {
    const kind = reader.letter();
    const value = kind === "t" ? reader.text(reader.int32()) : null;
    if (kind !== "u" && meant.includes(column)) tuple.set(column.name, value);
  }
  return tuple;
}
