import { z } from 'zod'
import { MIN_PER_SECOND, parseRate, RATE, UNIT_MS } from '../algorithms/rate.ts'
import { MAX_TOKENS } from '../max-tokens.ts'

export const rateText = z
  .string({ error: rateError })
  .refine((text) => parseRate(text) !== undefined, { error: rateError })
  .meta({ pattern: RATE.source })

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
