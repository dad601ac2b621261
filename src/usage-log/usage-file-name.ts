/** A file of the usage log: the hour of its lines, the start of the process that wrote it, and a number, because an hour may be written again. */
export interface UsageFileName {
  /** UTC, such as `2026-11-18T10`. */
  readonly hour: string
  /** Identifies one start of an instance, so that no two processes write the same file. */
  readonly instance: string
  readonly number: number
  readonly isCompressed: boolean
}

const NAME = /^usage-(\d{4}-\d{2}-\d{2}T\d{2})-([0-9a-f]{8})-([1-9]\d{0,5})\.jsonl(\.gz)?$/
const HOUR = /^\d{4}-\d{2}-\d{2}T\d{2}$/
export const HOUR_MS = 3_600_000

export function usageFileName({ hour, instance, number, isCompressed }: UsageFileName): string {
  return `usage-${hour}-${instance}-${number}.jsonl${isCompressed ? '.gz' : ''}`
}

/** Returns undefined for the name of any other file. */
export function parseUsageFileName(name: string): UsageFileName | undefined {
  const match = NAME.exec(name)
  if (match === null || Number.isNaN(hourStartMs(match[1]!))) return undefined
  return { hour: match[1]!, instance: match[2]!, number: Number(match[3]), isCompressed: match[4] !== undefined }
}

/** Returns NaN if there is no such hour. */
export function hourStartMs(hour: string): number {
  return HOUR.test(hour) ? Date.parse(`${hour}:00:00Z`) : Number.NaN
}
