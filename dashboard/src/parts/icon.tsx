const PATHS = {
  agents: "M8 11a3.5 3.5 0 1 0 0-7 3.5 3.5 0 0 0 0 7zM2 20c0-3.5 2.5-6 6-6s6 2.5 6 6M16 4.5a3.5 3.5 0 0 1 0 6.5M18 14.5c2.5.8 4 2.9 4 5.5",
  alarm: "M12 21a8 8 0 1 0 0-16 8 8 0 0 0 0 16zM12 9v4l2.5 2M5 3 2 6M19 3l3 3",
  asleep: "M20 14.5A8.5 8.5 0 1 1 9.5 4a7 7 0 0 0 10.5 10.5z",
  awake: "M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8zM12 2v2M12 20v2M2 12h2M20 12h2M5 5l1.4 1.4M17.6 17.6 19 19M5 19l1.4-1.4M17.6 6.4 19 5",
  calls: "M4 5h16M4 12h10M4 19h6M17 15l4 4-4 4M14 19h7",
  check: "M5 12.5 10 17.5 19.5 7",
  cluster: "M4 4h16v6H4zM4 14h16v6H4zM8 7h.01M8 17h.01",
  dream: "M7 18a4 4 0 0 1-.5-8A5.5 5.5 0 0 1 17 9a4.5 4.5 0 0 1 .5 9z",
  events: "M4 6h16M4 12h16M4 18h10",
  held: "M9 5v14M15 5v14",
  hook: "M12 3v10a4 4 0 1 1-8 0M12 3h6v6M4 13l-2 2.5M4 13l2.5 2",
  inbox: "M3 13h5l1.5 3h5L16 13h5M5 5h14l2 8v6H3v-6z",
  live: "M12 13a1 1 0 1 0 0-2 1 1 0 0 0 0 2zM8 16a5.5 5.5 0 0 1 0-8M16 8a5.5 5.5 0 0 1 0 8M5 19a10 10 0 0 1 0-14M19 5a10 10 0 0 1 0 14",
  memory: "M5 6c0-1.7 3-3 7-3s7 1.3 7 3v12c0 1.7-3 3-7 3s-7-1.3-7-3zM5 6c0 1.7 3 3 7 3s7-1.3 7-3M5 12c0 1.7 3 3 7 3s7-1.3 7-3",
  overview: "M4 4h7v7H4zM13 4h7v4h-7zM13 11h7v9h-7zM4 14h7v6H4z",
  passes: "M4 12a8 8 0 0 1 14-5.3M20 4v4h-4M20 12a8 8 0 0 1-14 5.3M4 20v-4h4",
  person: "M12 11a4 4 0 1 0 0-8 4 4 0 0 0 0 8zM4 21c0-4.5 3.5-7 8-7s8 2.5 8 7",
  providers: "M12 3v6M8 9h8v3a4 4 0 0 1-8 0zM12 16v5",
  pulse: "M2 12h4l3-8 5 16 3-8h5",
  threads: "M4 4h13v9H9l-4 3v-3H4zM20 9v9h-1v3l-4-3h-5",
  timeline: "M3 6h8M13 6h4M3 12h4M9 12h12M3 18h10M15 18h6",
  usage: "M4 20V10M10 20V4M16 20v-7M21 20H3",
  wakes: "M12 4a6 6 0 0 1 6 6v4l2 3H4l2-3v-4a6 6 0 0 1 6-6zM10 20h4",
  warning: "M12 3 22 20H2zM12 10v4M12 17h.01",
} as const;

export type IconName = keyof typeof PATHS;
export type Tone = "good" | "bad" | "asleep" | "awake" | "held" | "pulse" | "dream" | "quiet";

/** A picture beside a word that says the same. */
export function Icon({ name, tone, size = 18 }: { name: IconName; tone?: Tone; size?: number }) {
  return (
    <svg
      width={size}
      height={size}
      viewBox="0 0 24 24"
      fill="none"
      stroke={tone ? `var(--tone-${tone})` : "currentColor"}
      strokeWidth="2"
      strokeLinecap="round"
      strokeLinejoin="round"
      aria-hidden="true"
      style={{ flexShrink: 0 }}
    >
      <path d={PATHS[name]} />
    </svg>
  );
}
