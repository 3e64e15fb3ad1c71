import { createTheme, type CSSVariablesResolver } from "@mantine/core";

export const theme = createTheme({
  primaryColor: "indigo",
  primaryShade: { light: 8, dark: 8 },
  autoContrast: true,
  cursorType: "pointer",
  focusRing: "auto",
  fontFamily: "'Inter Latin', system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', sans-serif",
  fontSizes: { xs: "0.75rem", sm: "0.8125rem", md: "0.8125rem", lg: "0.9375rem", xl: "1.25rem" },
  headings: {
    fontWeight: "650",
    sizes: {
      h2: { fontSize: "1rem" }, h3: { fontSize: "1.125rem" }, h4: { fontSize: "1rem" }, h5: { fontSize: "0.875rem" },
      h6: { fontSize: "0.8125rem" },
    },
  }, // prettier-ignore
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
