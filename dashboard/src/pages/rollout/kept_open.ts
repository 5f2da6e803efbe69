/** What was opened stays open when it is scrolled away and comes back. */
import { createContext, useContext, useState } from "react";

export const KeptOpen = createContext(new Map<string, boolean>());

export function useKeptOpen(key: string): [boolean, (open: boolean) => void] {
  const kept = useContext(KeptOpen);
  const [isOpen, setOpen] = useState(kept.get(key) ?? false);
  const change = (open: boolean) => {
    kept.set(key, open);
    setOpen(open);
  };
  return [isOpen, change];
}
