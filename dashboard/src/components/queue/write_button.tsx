import { Button, type ButtonProps, Tooltip } from "@mantine/core";
import type { ReactNode } from "react";
import { useWhyNot } from "@/auth/session.tsx";

interface Props extends ButtonProps {
  onClick: () => void;
  children: ReactNode;
  /** Why not just now, besides what the person's role says. */
  whyNot?: string | null;
}

/** A button that changes something: who may not press it sees it all the same, with the reason. */
export function WriteButton({ onClick, children, whyNot, ...rest }: Props) {
  const byRole = useWhyNot();
  const reason = byRole ?? whyNot ?? null;
  if (reason === null) return <Button {...rest} onClick={onClick}>{children}</Button>;
  // Not `disabled`: neither pointer nor keys would reach the reason.
  return (
    <Tooltip label={reason} multiline maw={280}>
      <Button {...rest} data-disabled aria-disabled>{children}</Button>
    </Tooltip>
  );
}
