import { LinkError } from './link/redis-link.ts'

/** What the script says, see `assets/redis/counters.lua`. */
export interface ScriptAnswer {
  /** Whether all rows fit; 'other_window': a row does not know the windows of this time, and nothing was done. */
  readonly fits: boolean | 'other_window'
  readonly wallMs: number
  /** For each row what is left, how much was leased, and when it was reset last, or 0. */
  readonly levels: readonly number[]
  readonly leased: readonly number[]
  readonly resetsMs: readonly number[]
}

const OTHER_WINDOW = 2
const COLUMNS = 3

/** Throws a LinkError where it is something else. */
export function readAnswer(reply: unknown, rowCount: number): ScriptAnswer {
  const numbers = String(reply).split(' ').map(Number)
  const [fits, wallMs, ...rows] = numbers
  const isOtherWindow = fits === OTHER_WINDOW && rows.length === 0 && wallMs !== undefined
  if (numbers.some(Number.isNaN) || !(isOtherWindow || (numbers.length >= 2 && rows.length === COLUMNS * rowCount))) {
    throw new LinkError('unknown', 'malformed', 'that is no answer of the script')
  }
  const column = (which: number) => rows.filter((_, i) => i % COLUMNS === which)
  return { fits: isOtherWindow ? 'other_window' : fits === 1, wallMs: wallMs!, levels: column(0), leased: column(1), resetsMs: column(2) }
}
