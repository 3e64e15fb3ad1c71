import { createTheme, type CSSVariablesResolver } from "@mantine/core";

export const theme = createTheme({
  primaryColor: "indigo",
  primaryShade: { light: 8, dark: 8 },
  autoContrast: true,
  cursorType: "pointer",
  focusRing: "auto",
  fontFamily: "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', sans-serif",
  fontFamilyMonospace: "ui-monospace, 'SFMono-Regular', Menlo, Consolas, monospace",
  components: {
    Alert: { styles: { title: { color: "var(--mantine-color-text)" }, label: { color: "var(--mantine-color-text)" } } },
    Drawer: { defaultProps: { closeButtonProps: { "aria-label": "Close" } } },
    Modal: { defaultProps: { closeButtonProps: { "aria-label": "Close" } } },
    Notification: { defaultProps: { closeButtonProps: { "aria-label": "Dismiss" } } },
    Tooltip: { defaultProps: { withArrow: true, multiline: true, maw: 320 } },
  },
});

/** Colours with the contrast of WCAG AA, where those of Mantine have less. */
export const cssVariables: CSSVariablesResolver = (base) => ({
  variables: {},
  light: {
    "--mantine-color-dimmed": base.colors.gray[7],
    "--mantine-color-placeholder": base.colors.gray[7],
    "--mantine-color-error": base.colors.red[9],
    "--mantine-color-anchor": base.colors.indigo[9],
  },
  dark: {
    "--mantine-color-dimmed": base.colors.dark[1],
    "--mantine-color-placeholder": base.colors.dark[1],
    "--mantine-color-error": base.colors.red[4],
    "--mantine-color-anchor": base.colors.indigo[3],
  },
});
