import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { BUCKET, type BucketLimit, type WindowLimit } from '../../../src/limiter/limit.ts'
import { ChargeResults, Charges } from '../../../src/store/charges.ts'
import type { Script } from '../../../src/store/redis/link/call.ts'
import { newEmbeddedStore } from '../../../src/store/table/embedded-store.ts'
import { CLOCK_OF_A_TEST, type ClockedLink } from './clocked-link.ts'

const DAY_MS = 86_400_000
const SETTLED = -1

/** What builds from before the table of kinds do on one counter in Redis: with its script, its arguments and its own count. */
export class OldInstance {
  readonly #link: ClockedLink
  readonly #key: string
  readonly #limit: BucketLimit | WindowLimit
  readonly #script = oldScript()
  readonly #local = newEmbeddedStore(64 * 1024)
  readonly #own: Charges['counters'][number]

  constructor(link: ClockedLink, key: string, limit: BucketLimit | WindowLimit) {
    this.#link = link
    this.#key = key
    this.#limit = limit
    this.#own = this.#local.open({ identity: ['rule'], limit, sinceMs: 0 })
  }

  async take(cost: number): Promise<{ fits: boolean; wallMs: number }> {
    const { nowMs, wallMs } = this.#link
    const results = new ChargeResults()
    this.#local.checkAll(this.#charges(cost), results, nowMs, wallMs)
    const [fits, takenWallMs] = (await this.#run('take', cost, results.levels[0]!, SETTLED)).split(' ').map(Number)
    if (fits === 1) this.#local.takeAll(this.#charges(cost), results, nowMs, wallMs)
    return { fits: fits === 1, wallMs: takenWallMs! }
  }

  async settle(cost: number): Promise<void> {
    const { nowMs, wallMs } = this.#link
    this.#local.settleAll(this.#charges(cost), { wallMs, momentMs: wallMs, from: 'local' }, nowMs, wallMs)
    await this.#run('settle', cost, 0, SETTLED)
  }

  async giveBack(cost: number, takenWallMs: number): Promise<void> {
    await this.#run('give_back', cost, takenWallMs, 0)
  }

  async left(): Promise<number> {
    return Math.round(Number((await this.#run('check', 0, Number.MAX_VALUE, SETTLED)).split(' ')[2]))
  }

  #run(action: string, cost: number, most: number, more: number): Promise<string> {
    const limit = this.#limit
    const [size, rate, since] =
      limit.kind === BUCKET ? [limit.burst, limit.tokensPerMs, this.#link.nowMs] : [limit.tokens, 0, Math.floor(this.#link.wallMs / DAY_MS)]
    return this.#link.run(this.#script, [this.#key], [action, ...[cost, size, rate, most, since, more].map(String)]) as Promise<string>
  }

  #charges(cost: number): Charges {
    const charges = new Charges()
    charges.add(this.#own!, cost)
    return charges
  }
}

function oldScript(): Script {
  const text = `${CLOCK_OF_A_TEST}\n${readFileSync(new URL('./earlier-counters.lua', import.meta.url), 'utf8')}`
  return { text, sha: createHash('sha1').update(text).digest('hex') }
}
