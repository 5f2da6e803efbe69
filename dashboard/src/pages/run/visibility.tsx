import { Badge, Button, Menu } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { changeRun, type Run } from "@/api/run.ts";
import { useMayChange } from "@/auth/session.tsx";

/** Who sees the run, and the way to change that for who may. */
export function Visibility({ run }: { run: Run }) {
  const mayChange = useMayChange(run.owner_id);
  const isPublic = run.visibility === "public";
  if (!mayChange) return isPublic && <Badge variant="outline" color="gray" c="dimmed">public</Badge>;

  const change = (visibility: "public" | "private") =>
    changeRun(run.id, { visibility }).catch((error: Error) =>
      notifications.show({ color: "red", title: "Not changed", message: error.message })
    );
  return (
    <Menu position="bottom-end" width={300}>
      <Menu.Target>
        <Button size="compact-xs" variant="default">{isPublic ? "Public" : "Private"}</Button>
      </Menu.Target>
      <Menu.Dropdown>
        <Menu.Label>
          {isPublic
            ? "Anyone who can reach this address sees this run and all that hangs on it, without signing in."
            : "Only members see this run."}
        </Menu.Label>
        <Menu.Item onClick={() => void change(isPublic ? "private" : "public")}>
          {isPublic ? "Make it private" : "Make it public: everyone may look, without signing in"}
        </Menu.Item>
      </Menu.Dropdown>
    </Menu>
  );
}
