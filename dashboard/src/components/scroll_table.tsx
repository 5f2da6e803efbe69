import { Table } from "@mantine/core";
import type { ReactNode } from "react";

interface Props {
  label: string;
  minWidth: number;
  maxHeight?: number;
  children: ReactNode;
}

/** A table that scrolls within its place, also by keys, where the screen is narrower or it is long. */
export function ScrollTable({ label, minWidth, maxHeight, children }: Props) {
  const viewportProps = { tabIndex: 0, role: "region", "aria-label": label };
  return (
    <Table.ScrollContainer
      minWidth={minWidth}
      mah={maxHeight}
      scrollAreaProps={{ viewportProps, offsetScrollbars: "present" }}
    >
      <Table aria-label={label} highlightOnHover stickyHeader={maxHeight !== undefined}>{children}</Table>
    </Table.ScrollContainer>
  );
}
