import { Button, Menu, Text, useMantineColorScheme } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { useContext } from "react";

import { Icon } from "../parts/icon";
import { Name } from "../parts/name";
import { signOut } from "../server/circadia";
import { endSession, PersonContext } from "../server/session";

const SCHEMES = [
  ["light", "Light"],
  ["dark", "Dark"],
  ["auto", "As the system"],
] as const;

/** The signed-in person, the colour scheme, and the way out. */
export function PersonMenu() {
  const { name, role } = useContext(PersonContext);
  const { colorScheme, setColorScheme } = useMantineColorScheme();
  const leave = () =>
    signOut().then(() => endSession("none"), (error: Error) =>
      notifications.show({ color: "red", title: "Still signed in", message: error.message }),
    );
  return (
    <Menu position="bottom-end" width={220}>
      <Menu.Target>
        <Button variant="default" size="compact-md" maw={200} leftSection={<Icon name="person" />}>
          <Name text={name} />
        </Button>
      </Menu.Target>
      <Menu.Dropdown>
        <Menu.Label>
          Role: <Text span fw={600} size="sm">{role}</Text>
        </Menu.Label>
        <Menu.Divider />
        <Menu.Label>Colours</Menu.Label>
        {SCHEMES.map(([scheme, label]) => (
          <Menu.Item
            key={scheme}
            onClick={() => setColorScheme(scheme)}
            role="menuitemradio"
            aria-checked={colorScheme === scheme}
            rightSection={colorScheme === scheme && <Icon name="check" />}
          >
            {label}
          </Menu.Item>
        ))}
        <Menu.Divider />
        <Menu.Item onClick={() => void leave()}>Sign out</Menu.Item>
      </Menu.Dropdown>
    </Menu>
  );
}
