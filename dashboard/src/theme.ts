import { createTheme, type CSSVariablesResolver, type MantineColorsTuple } from "@mantine/core";

const teal: MantineColorsTuple = [
  "#e7f6f6",
  "#cfe9ea",
  "#a0d3d5",
  "#6ebcbf",
  "#47a8ac",
  "#2e9ca1",
  "#1f979c",
  "#0f7f84",
  "#0a6f74",
  "#005e63",
];

export const theme = createTheme({
  primaryColor: "teal",
  colors: { teal },
  primaryShade: { light: 8, dark: 7 },
  autoContrast: true,
  defaultRadius: "sm",
  fontFamily: "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', sans-serif",
  fontFamilyMonospace: "ui-monospace, 'SF Mono', Menlo, Consolas, 'DejaVu Sans Mono', monospace",
  headings: { fontWeight: "650" },
  components: {
    Tooltip: { defaultProps: { withArrow: true, openDelay: 300, events: { hover: true, focus: true, touch: true } } },
    Badge: { defaultProps: { tt: "none", fw: 550, radius: "sm" } },
    Table: { defaultProps: { verticalSpacing: "xs" } },
    Notification: { defaultProps: { closeButtonProps: { "aria-label": "Close" } } },
    Anchor: { defaultProps: { underline: "hover" } },
  },
});

/** Quiet text and errors must be readable: the library's own colours are too pale, or too dark, on their grounds. */
export const variables: CSSVariablesResolver = () => ({
  variables: {},
  light: {
    "--mantine-color-dimmed": "#5b6570",
    "--mantine-color-error": "#c02525",
    "--mantine-color-placeholder": "#6a737d",
    // As that of warnings: the library's own is too pale to read on its ground.
    "--mantine-color-orange-light-color": "#8f3d00",
    "--om-line": "#dfe3e8",
    "--om-sunken": "#f5f7f9",
  },
  dark: {
    "--mantine-color-dimmed": "#a9b3bd",
    "--mantine-color-error": "#ff8f8f",
    "--mantine-color-placeholder": "#98a2ac",
    "--om-line": "#3a3f47",
    "--om-sunken": "#1b1d20",
  },
});

/** Series colours that stay apart on both grounds and for colour-blind eyes. */
export const SERIES = [
  "#0a84a5",
  "#d9622b",
  "#6a994e",
  "#9b5de5",
  "#c9184a",
  "#b08900",
  "#3d5a98",
  "#2a9d8f",
  "#8d5524",
  "#e06aa6",
];

export function seriesColor(index: number): string {
  return SERIES[index % SERIES.length]!;
}
