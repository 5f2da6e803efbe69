import { Button, Menu } from "@mantine/core";
import { IconColumns3 } from "@tabler/icons-react";
import { COLUMNS, DEFAULT_COLUMNS } from "./columns.tsx";

/** Choose the columns of the list. */
export function ColumnMenu({ chosen, change }: { chosen: string[]; change: (columns: string[]) => void }) {
  const toggle = (name: string) =>
    change(
      COLUMNS.map((column) => column.name).filter((other) => (other === name) !== chosen.includes(other)),
    );
  return (
    <Menu position="bottom-end" width={200}>
      <Menu.Target>
        <Button variant="default" size="xs" leftSection={<IconColumns3 size={14} aria-hidden />}>Columns</Button>
      </Menu.Target>
      <Menu.Dropdown mah="80dvh" style={{ overflowY: "auto" }}>
        {COLUMNS.filter(({ name }) => name !== "name").map(({ name, label }) => (
          <Menu.CheckboxItem
            key={name}
            checked={chosen.includes(name)}
            onChange={() => toggle(name)}
            py={4}
          >
            {label}
          </Menu.CheckboxItem>
        ))}
        <Menu.Divider />
        <Menu.Item onClick={() => change(DEFAULT_COLUMNS)} py={4}>Back to the usual ones</Menu.Item>
      </Menu.Dropdown>
    </Menu>
  );
}
