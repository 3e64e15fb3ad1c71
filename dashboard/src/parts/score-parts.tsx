import { Group, Text } from "@mantine/core";

/** A score with what it is the sum of, and what that is multiplied by. */
export function ScoreParts({ score, parts }: { score: number; parts: Record<string, number> }) {
  const { weight = 1, ...summands } = parts;
  const shown = Object.entries(summands).filter(([, value]) => value !== 0);
  return (
    <Group gap="xs" mt={4} role="group" aria-label="Score" style={{ fontVariantNumeric: "tabular-nums" }}>
      <Text size="xs" fw={600}>
        Score {format(score)} =
      </Text>
      {shown.map(([name, value], index) => (
        <Text key={name} size="xs">
          {index > 0 && "+ "}
          {name} {format(value)}
        </Text>
      ))}
      {weight !== 1 && <Text size="xs">× weight {format(weight)}, because it was demoted</Text>}
    </Group>
  );
}

function format(value: number): string {
  return value.toFixed(3);
}
