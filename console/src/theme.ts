// Colours that can be read: text at 4.5:1 or more in both schemes (WCAG 2 AA), which the defaults miss in places.
import { type CSSVariablesResolver, createTheme } from "@mantine/core";

export const theme = createTheme({
  primaryColor: "cyan",
  primaryShade: { light: 9, dark: 9 },
  defaultRadius: "md",
  respectReducedMotion: true,
  fontFamily: "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif",
});

const FILLED = {
  "--mantine-color-orange-filled": "#b03a08",
  "--mantine-color-orange-filled-hover": "#8f2f06",
  "--mantine-color-cyan-filled-hover": "#095c6b",
  "--mantine-primary-color-filled-hover": "#095c6b",
};

export const variables: CSSVariablesResolver = () => ({
  variables: {},
  light: {
    ...FILLED,
    "--mantine-color-dimmed": "#495057",
    "--mantine-color-placeholder": "#5c636a",
    "--mantine-color-error": "#b02a2a",
    "--mantine-color-anchor": "#0b6477",
    "--mantine-color-cyan-light-color": "#095c6b",
    "--mantine-color-teal-light-color": "#066649",
    "--mantine-color-orange-light-color": "#9a3412",
    "--mantine-color-red-light-color": "#a61e1e",
  },
  dark: {
    ...FILLED,
    "--mantine-color-dimmed": "#b8bcc0",
    "--mantine-color-placeholder": "#a0a4a8",
    "--mantine-color-error": "#ff8787",
    "--mantine-color-anchor": "#66d9e8",
  },
});
