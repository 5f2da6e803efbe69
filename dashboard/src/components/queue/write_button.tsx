import { ActionIcon, Button, type ButtonProps, Tooltip } from "@mantine/core";
import type { ReactNode } from "react";
import { useWhyNot } from "@/auth/session.tsx";

interface Props extends ButtonProps {
  onClick: () => void;
  children: ReactNode;
  /** Why not just now, besides what the person's role says. */
  whyNot?: string | null;
  /** Only this, with the text as its name. */
  icon?: ReactNode;
}

/** A button that changes something: who may not press it sees it all the same, with the reason. */
export function WriteButton({ onClick, children, whyNot, icon, ...rest }: Props) {
  const byRole = useWhyNot();
  const reason = byRole ?? whyNot ?? null;
  // Not `disabled`: neither pointer nor keys would reach the reason.
  const off = reason === null ? {} : { "data-disabled": true, "aria-disabled": true };
  const press = () => reason === null && onClick();
  return (
    <Tooltip label={reason ?? children} disabled={reason === null && !icon} multiline maw={280}>
      {icon
        ? (
          <ActionIcon
            variant="subtle"
            color="gray"
            size="sm"
            aria-label={String(children)}
            loading={rest.loading}
            onClick={press}
            {...off}
          >
            {icon}
          </ActionIcon>
        )
        : <Button {...rest} {...off} onClick={press}>{children}</Button>}
    </Tooltip>
  );
}
