import type { Period } from '../limiter/calendar.ts'

export const WEEKDAYS = ['monday', 'tuesday', 'wednesday', 'thursday', 'friday', 'saturday', 'sunday'] as const

/** The day on which windows begin: a weekday for weeks, a day of the month for months. */
export type Anchor = (typeof WEEKDAYS)[number] | number

/** The fields of a rule that say which windows it has. */
export interface WindowConfig {
  readonly period: Period
  readonly timezone: string
  readonly anchor?: Anchor | undefined
}

/** Returns the number of the day: that of the weekday, where Monday is 1, or of the day of the month. */
export function anchorDay(anchor: Anchor | undefined): number {
  if (anchor === undefined) return 1
  return typeof anchor === 'number' ? anchor : WEEKDAYS.indexOf(anchor) + 1
}

/** Returns the anchor that means something else than its absence; undefined if there is none. */
export function statedAnchor({ anchor }: WindowConfig): Anchor | undefined {
  return anchorDay(anchor) === 1 ? undefined : anchor
}
