import { notifications } from "@mantine/notifications";

/** Await what someone asked for with a click, and say so if it failed. */
export async function told<T>(attempt: Promise<T>): Promise<T | undefined> {
  try {
    return await attempt;
  } catch (error) {
    notifications.show({ color: "red", title: "That did not work", message: (error as Error).message });
  }
}
