import { Button, Menu, Text, useMantineColorScheme } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { useContext } from "react";

import { Icon } from "../parts/icon";
import { Name } from "../parts/name";
import { signOut } from "../server/circadia";
import { changePreferences, usePreferences } from "../server/preferences";
import { endSession, PersonContext } from "../server/session";

const SCHEMES = [
  ["light", "Light"],
  ["dark", "Dark"],
  ["auto", "As the system"],
] as const;
const DENSITIES = [
  ["comfortable", "Comfortable"],
  ["dense", "Dense"],
] as const;
const ZONES = [
  ["local", "In my time zone"],
  ["utc", "In UTC"],
  ["agent", "In the agent's zone"],
] as const;

/** The signed-in person, how the pages look, and the way out. */
export function PersonMenu() {
  const { name, role } = useContext(PersonContext);
  const { colorScheme, setColorScheme } = useMantineColorScheme();
  const { density, zone } = usePreferences();
  const leave = () =>
    signOut().then(() => endSession("none"), (error: Error) =>
      notifications.show({ color: "red", title: "Still signed in", message: error.message }),
    );
  return (
    <Menu position="bottom-end" width={220} withInitialFocusPlaceholder={false}>
      <Menu.Target>
        <Button variant="default" size="compact-md" maw={200} leftSection={<Icon name="person" />}>
          <Name text={name} />
        </Button>
      </Menu.Target>
      <Menu.Dropdown>
        <Text size="xs" c="dimmed" px="sm" py={4} role="presentation">
          Role: {role}
        </Text>
        <Choice label="Colours" choices={SCHEMES} chosen={colorScheme} onChoose={setColorScheme} />
        <Choice label="Rows" choices={DENSITIES} chosen={density} onChoose={(value) => changePreferences({ density: value })} />
        <Choice label="Times" choices={ZONES} chosen={zone} onChoose={(value) => changePreferences({ zone: value })} />
        <Menu.Divider role="separator" />
        <Menu.Item onClick={() => void leave()}>Sign out</Menu.Item>
      </Menu.Dropdown>
    </Menu>
  );
}

interface ChoiceProps<Value extends string> {
  label: string;
  choices: readonly (readonly [Value, string])[];
  chosen: string;
  onChoose: (value: Value) => void;
}

/** One of several, within the menu. */
function Choice<Value extends string>({ label, choices, chosen, onChoose }: ChoiceProps<Value>) {
  return (
    <div role="group" aria-label={label}>
      <Menu.Divider role="separator" />
      <Text size="xs" c="dimmed" px="sm" pt={4} aria-hidden="true">
        {label}
      </Text>
      <Menu.RadioGroup value={chosen} onChange={(value) => onChoose(value as Value)}>
        {choices.map(([value, name]) => (
          <Menu.RadioItem key={value} value={value}>
            {name}
          </Menu.RadioItem>
        ))}
      </Menu.RadioGroup>
    </div>
  );
}
