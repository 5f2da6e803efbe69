/** Keys of the page of a rollout. They are silent while one types, or while a dialog is open. */
import { Kbd, Modal, Table } from "@mantine/core";
import { useEffect, useRef } from "react";

export type Keys = Partial<Record<string, () => void>>;

function isTyping(target: EventTarget | null): boolean {
  const element = target as HTMLElement | null;
  return !!element?.closest?.(
    "input:not([type=checkbox]), textarea, select, [contenteditable=true], [role=dialog], [role=menu]",
  );
}

export function useKeys(keys: Keys): void {
  const latest = useRef(keys);
  latest.current = keys;
  useEffect(() => {
    const press = (event: KeyboardEvent) => {
      if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
      if (document.querySelector("[role=dialog]")) return;
      const act = latest.current[event.key];
      if (!act) return;
      event.preventDefault();
      act();
    };
    document.addEventListener("keydown", press);
    return () => document.removeEventListener("keydown", press);
  }, []);
}

export function KeyHelp({ opened, onClose, keys }: {
  opened: boolean;
  onClose: () => void;
  keys: readonly (readonly [readonly string[], string])[];
}) {
  return (
    <Modal opened={opened} onClose={onClose} title="Keys" closeButtonProps={{ "aria-label": "Close" }}>
      <Table>
        <Table.Thead>
          <Table.Tr>
            <Table.Th>Key</Table.Th>
            <Table.Th>What it does</Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {keys.map(([names, what]) => (
            <Table.Tr key={what}>
              <Table.Td>{names.map((name) => <Kbd key={name} mr={4}>{name}</Kbd>)}</Table.Td>
              <Table.Td>{what}</Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Modal>
  );
}
