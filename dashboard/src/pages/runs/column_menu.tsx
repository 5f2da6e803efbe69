import { Button, Menu } from "@mantine/core";
import { IconColumns3, IconSquare, IconSquareCheckFilled } from "@tabler/icons-react";
import { COLUMNS, DEFAULT_COLUMNS } from "./columns.tsx";

/** Choose the columns of the list. */
export function ColumnMenu({ chosen, change }: { chosen: string[]; change: (columns: string[]) => void }) {
  const toggle = (name: string) =>
    change(
      COLUMNS.map((column) => column.name).filter((other) => (other === name) !== chosen.includes(other)),
    );
  return (
    <Menu closeOnItemClick={false} position="bottom-end" width={200}>
      <Menu.Target>
        <Button variant="default" size="xs" leftSection={<IconColumns3 size={14} aria-hidden />}>Columns</Button>
      </Menu.Target>
      <Menu.Dropdown mah={460} style={{ overflowY: "auto" }}>
        {COLUMNS.filter(({ name }) => name !== "name").map(({ name, label }) => {
          const isShown = chosen.includes(name);
          return (
            <Menu.Item
              key={name}
              role="menuitemcheckbox"
              aria-checked={isShown}
              leftSection={isShown ? <IconSquareCheckFilled size={16} /> : <IconSquare size={16} />}
              onClick={() => toggle(name)}
              py={4}
            >
              {label}
            </Menu.Item>
          );
        })}
        <Menu.Divider />
        <Menu.Item onClick={() => change(DEFAULT_COLUMNS)} py={4}>Back to the usual ones</Menu.Item>
      </Menu.Dropdown>
    </Menu>
  );
}
