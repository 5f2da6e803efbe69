/** What clients of one topic tell each other: broadcasts, and who of them is present. */

type Payload = Record<string, unknown>;

/** A client in a room. */
export interface Guest {
  readonly hearsItself: boolean;
  /** Null where it does not take part in presence. */
  readonly presenceKey: string | null;
  readonly mayHear: { broadcast: boolean; presence: boolean };
  push(event: string, payload: Payload): void;
}

interface Presence {
  key: string;
  meta: Payload;
}

class Room {
  readonly guests = new Set<Guest>();
  readonly present = new Map<Guest, Presence>();
}

export class Rooms {
  readonly #rooms = new Map<string, Room>();

  /** Public and private channels of one name are two. */
  static name(topic: string, isPrivate: boolean): string {
    return `${isPrivate ? "private" : "public"} ${topic}`;
  }

  enter(name: string, guest: Guest): void {
    const room = this.#rooms.get(name) ?? new Room();
    this.#rooms.set(name, room);
    room.guests.add(guest);
    if (guest.presenceKey !== null && guest.mayHear.presence) {
      guest.push("presence_state", listed([...room.present.values()]));
    }
  }

  leave(name: string, guest: Guest): void {
    const room = this.#rooms.get(name);
    if (!room?.guests.delete(guest)) return;
    this.untrack(name, guest);
    if (room.guests.size === 0) this.#rooms.delete(name);
  }

  /** Pass a message on to everybody in a room but, unless it wants to hear itself, its sender. */
  broadcast(name: string, payload: Payload, sender: Guest | null): void {
    for (const guest of this.#rooms.get(name)?.guests ?? []) {
      if (guest.mayHear.broadcast && (guest !== sender || guest.hearsItself)) guest.push("broadcast", payload);
    }
  }

  /** Note that a guest is present, with what it says of itself; said again, it replaces what was said before. */
  track(name: string, guest: Guest, said: Payload): void {
    const room = this.#rooms.get(name);
    if (!room || guest.presenceKey === null) return;
    const left = room.present.get(guest);
    const joined = { key: guest.presenceKey, meta: { ...said, phx_ref: crypto.randomUUID().slice(0, 16) } };
    room.present.set(guest, joined);
    this.#tell(room, [joined], left ? [left] : []);
  }

  untrack(name: string, guest: Guest): void {
    const room = this.#rooms.get(name);
    const left = room?.present.get(guest);
    if (!room || !left) return;
    room.present.delete(guest);
    this.#tell(room, [], [left]);
  }

  #tell(room: Room, joined: Presence[], left: Presence[]): void {
    const difference = { joins: listed(joined), leaves: listed(left) };
    for (const guest of room.guests) {
      if (guest.presenceKey !== null && guest.mayHear.presence) guest.push("presence_diff", difference);
    }
  }
}

/** Presences by their keys, of which several clients may have the same. */
function listed(present: Presence[]): Payload {
  const groups = Map.groupBy(present, ({ key }) => key);
  return Object.fromEntries([...groups].map(([key, all]) => [key, { metas: all.map(({ meta }) => meta) }]));
}
