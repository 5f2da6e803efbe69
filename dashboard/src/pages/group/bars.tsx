/** The rewards of a group next to each other; a press on a bar goes to its rollout. */
import { Text } from "@mantine/core";
import type { ComparedRollout } from "@/api/groups.ts";
import { scaleOf, statusColor } from "@/pages/step/strip.tsx";
import { number, shortId } from "@/view/format.ts";
import { finite } from "./order.ts";
import styles from "./page.module.css";

export function RewardBars({ rollouts, show }: { rollouts: ComparedRollout[]; show: (id: string) => void }) {
  const { low, high } = scaleOf(rollouts.map((rollout) => rollout.total_reward));
  const share = (value: number) => `${(value / (high - low)) * 100}%`;
  return (
    <div className={styles.barsFrame}>
      <div className={styles.scaleTexts} aria-hidden>
        <Text size="xs" c="dimmed">{number(high, 3)}</Text>
        <Text size="xs" c="dimmed">{number(low, 3)}</Text>
      </div>
      {/* Hidden from screen readers: the table below says the same. */}
      <div className={styles.bars} aria-hidden>
        {rollouts.map((rollout) => {
          const reward = finite(rollout.total_reward);
          const title = `${shortId(rollout.id)}: ${number(rollout.total_reward)}, ${rollout.status}`;
          return (
            <button key={rollout.id} type="button" tabIndex={-1} title={title} onClick={() => show(rollout.id)}>
              {reward === null ? <i className={styles.unknown} style={{ bottom: share(-low) }} /> : (
                <i
                  style={{
                    height: `max(2px, ${share(Math.abs(reward))})`,
                    bottom: share(Math.min(reward, 0) - low),
                    background: statusColor(rollout.status),
                  }}
                />
              )}
            </button>
          );
        })}
      </div>
    </div>
  );
}
