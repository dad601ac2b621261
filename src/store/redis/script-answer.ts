import { LinkError } from './link/redis-link.ts'

/** What the script answers, see `assets/redis/counters.lua`. */
export interface ScriptAnswer {
  readonly fits: boolean
  readonly wallMs: number
  /** For each row what is left, and how much was leased. */
  readonly levels: readonly number[]
  readonly leased: readonly number[]
}

/** Throws a LinkError where it is something else. */
export function readAnswer(reply: unknown, rowCount: number): ScriptAnswer {
  const numbers = String(reply).split(' ').map(Number)
  if (numbers.length !== 2 + 2 * rowCount || numbers.some(Number.isNaN)) {
    throw new LinkError('unknown', 'malformed', 'that is no answer of the script')
  }
  const [fits, wallMs, ...rows] = numbers
  return { fits: fits === 1, wallMs: wallMs!, levels: rows.filter((_, i) => i % 2 === 0), leased: rows.filter((_, i) => i % 2 === 1) }
}
