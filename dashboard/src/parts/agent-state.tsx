import { Group, Text } from "@mantine/core";

import { Icon, type IconName, type Tone } from "./icon";

type StateWord = "asleep" | "awake" | "disabled";

/** Return the one word for an agent's state. */
export function stateOf({ enabled, sleeping }: { enabled: boolean; sleeping: boolean }): StateWord {
  if (!enabled) return "disabled";
  return sleeping ? "asleep" : "awake";
}

const LOOKS: Record<StateWord, [IconName, Tone]> = {
  asleep: ["asleep", "asleep"],
  awake: ["awake", "awake"],
  disabled: ["held", "quiet"],
};

export function AgentState({ state, isPulsing = false }: { state: StateWord; isPulsing?: boolean }) {
  const [icon, tone] = LOOKS[state];
  return (
    <Group gap={6} wrap="nowrap">
      <Icon name={icon} tone={tone} size={16} />
      <Text size="sm">{state}</Text>
      {isPulsing && (
        <>
          <Icon name="pulse" tone="pulse" size={16} />
          <Text size="sm" className="pulse-word">
            in a pulse
          </Text>
        </>
      )}
    </Group>
  );
}
