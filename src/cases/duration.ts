const UNIT_MS: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 }

export const DURATION = /^(\d{1,6}(?:\.\d{1,3})?|\d{1,15})(ms|s|m|h|d)$/

/** Undefined where the text is no duration. */
export function durationMs(text: string): number | undefined {
  const [, count, unit] = DURATION.exec(text) ?? []
  return unit === undefined ? undefined : Number(count) * UNIT_MS[unit]!
}
