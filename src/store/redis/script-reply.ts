import { LinkError } from './link/link-error.ts'

/** What the script returns, see `assets/redis/counters.lua`. */
export interface ScriptReply {
  /** Whether all rows fit; 'other_window': a row does not name the window of Redis's time, and nothing was done. */
  readonly fits: boolean | 'other_window'
  readonly wallMs: number
  /** For each row: tokens left, tokens leased, the time of the last reset, or 0, 0 or a warning, and what was refunded. */
  readonly levels: readonly number[]
  readonly leased: readonly number[]
  readonly resetsMs: readonly number[]
  /** 1000 × the percentage that is reached, plus the one that was warned of before. */
  readonly warnings: readonly number[]
  readonly refunded: readonly number[]
}

export function warnedPercent(warning: number): number {
  return Math.floor(warning / 1000)
}

const OTHER_WINDOW = 2
const COLUMNS = 5

/** Throws a LinkError if it is not a reply of the script. */
export function readReply(reply: unknown, rowCount: number): ScriptReply {
  const texts = String(reply).split(' ')
  const fits = Number(texts[0])
  const wallMs = Number(texts[1])
  const isOtherWindow = fits === OTHER_WINDOW && texts.length === 2
  let hasOnlyNumbers = texts.length === 2 + (isOtherWindow ? 0 : COLUMNS * rowCount) && !Number.isNaN(fits + wallMs)
  const columns: [number[], number[], number[], number[], number[]] = [[], [], [], [], []]
  for (let i = 2; i < texts.length; i++) {
    const number = Number(texts[i])
    if (Number.isNaN(number)) hasOnlyNumbers = false
    columns[(i - 2) % COLUMNS]!.push(number)
  }
  if (!hasOnlyNumbers) throw new LinkError('unknown', 'malformed', 'not a reply of the script')
  const [levels, leased, resetsMs, warnings, refunded] = columns
  return { fits: isOtherWindow ? 'other_window' : fits === 1, wallMs, levels, leased, resetsMs, warnings, refunded }
}
