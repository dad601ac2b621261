import { z } from 'zod'
import { MAX_TOKENS } from '../schema-parts.ts'

/** A number of requests in a unit of time: `100/minute`. */
export interface Rate {
  readonly count: number
  readonly tokensPerMs: number
}

const MIN_PER_SECOND = 1e-9
const UNIT_MS = { second: 1000, minute: 60_000, hour: 3_600_000, day: 86_400_000 } as const

const RATE = /^(\d+(?:\.\d+)?)\/(second|minute|hour|day)$/

export const rateText = z
  .string({ error: rateError })
  .refine((text) => parseRate(text) !== undefined, { error: rateError })
  .meta({ pattern: RATE.source })

/** Undefined for a text that is not a rate. */
export function parseRate(text: string): Rate | undefined {
  const [, count, unit] = RATE.exec(text) ?? []
  const tokensPerMs = Number(count) / UNIT_MS[unit as keyof typeof UNIT_MS]
  return tokensPerMs * 1000 >= MIN_PER_SECOND && tokensPerMs * 1000 <= MAX_TOKENS ? { count: Number(count), tokensPerMs } : undefined
}

function rateError({ input }: { readonly input?: unknown }): string {
  if (typeof input === 'string' && RATE.test(input)) return `a rate from ${MIN_PER_SECOND} to ${MAX_TOKENS} per second`
  return `a rate per second, minute, hour or day, such as ${meantRate(input) ?? '100/minute'}`
}

/** The rate that was meant by `100/min`, `100 r/s`, `100 per hour` or `100/minutes`. */
function meantRate(input: unknown): string | undefined {
  if (typeof input !== 'string' || input.length > 64) return undefined
  const [, count, unit] = /^(\d+(?:\.\d+)?) ?[a-z]{0,10} ?(?:\/|\bper\b) ?([smhd][a-z]{0,9})$/.exec(input.trim().toLowerCase()) ?? []
  const name = unit && Object.keys(UNIT_MS).find((known) => known.startsWith(unit) || `${known}s` === unit || SHORT[unit] === known)
  return name && `${count}/${name}`
}

const SHORT: Readonly<Record<string, string>> = { secs: 'second', mins: 'minute', hr: 'hour', hrs: 'hour' }
