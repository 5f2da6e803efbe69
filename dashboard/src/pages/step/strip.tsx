/** The rewards of a group's rollouts as small bars, on one scale for all groups in sight. */
import type { GroupReward } from "@/api/groups.ts";
import { number } from "@/view/format.ts";

const HEIGHT = 26;
const MOST = 200;

export interface Scale {
  low: number;
  high: number;
}

/** From nought, so that a bar's length is its reward. */
export function scaleOf(rewards: (number | string | null)[]): Scale {
  const finite = rewards.filter((reward) => typeof reward === "number" && Number.isFinite(reward)) as number[];
  const low = Math.min(0, ...finite);
  const high = Math.max(0, ...finite);
  return low === high ? { low, high: low + 1 } : { low, high };
}

const COLORS: Record<string, string> = {
  success: "#2f9e44",
  error: "#e03131",
  truncated: "#f2b705",
  timeout: "#f2b705",
};

export function statusColor(status: string): string {
  return COLORS[status] ?? "#6c7a89";
}

export function RewardStrip({ rewards, scale }: { rewards: GroupReward[]; scale: Scale }) {
  const shown = rewards.slice(0, MOST);
  const step = shown.length > 24 ? 4 : 8;
  const place = (value: number) => HEIGHT - ((value - scale.low) / (scale.high - scale.low)) * (HEIGHT - 2) - 1;
  const zero = place(0);
  const listed = shown.slice(0, 20).map((one) => number(one.total_reward)).join(", ");
  return (
    <svg
      width={Math.max(shown.length, 1) * step}
      height={HEIGHT}
      role="img"
      aria-label={`Rewards: ${listed}${rewards.length > 20 ? ", …" : ""}`}
    >
      <line x1={0} x2={shown.length * step} y1={zero} y2={zero} stroke="var(--om-line)" />
      {shown.map((one, index) => {
        const reward = typeof one.total_reward === "number" ? one.total_reward : null;
        const x = index * step;
        // What has no reward is a hollow dot: unknown is not nought.
        if (reward === null) {
          return <circle key={one.id} cx={x + step / 2 - 0.5} cy={zero - 3} r={1.5} fill="none" stroke="#868e96" />;
        }
        const y = place(reward);
        const top = Math.min(y, zero);
        return (
          <rect
            key={one.id}
            x={x}
            y={Math.abs(y - zero) < 2 ? zero - 1 : top}
            width={step - 1}
            height={Math.max(2, Math.abs(y - zero))}
            fill={statusColor(one.status)}
          >
            <title>{`${number(reward)} · ${one.status}`}</title>
          </rect>
        );
      })}
    </svg>
  );
}
