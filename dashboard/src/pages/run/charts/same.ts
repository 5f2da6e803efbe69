import { useRef } from "react";

/** The list of the last time while its members are the same, so that what is made of it need not be made again. */
export function useSame<T>(list: T[], isSame: (a: T, b: T) => boolean = Object.is): T[] {
  const last = useRef(list);
  const before = last.current;
  if (before.length !== list.length || list.some((member, place) => !isSame(member, before[place]!))) {
    last.current = list;
  }
  return last.current;
}
