import type { Charges, Counter } from '../../src/store/charges.ts'
import type { CounterSpec, CounterStore, Outcome, StoreStats } from '../../src/store/counter-store.ts'

export const CLOCK_KEY = 'the-time-of-a-test'

/** Instead of the server's clock: the time is what a test says, and nothing expires by any other. */
export const CLOCK_OF_A_TEST = `
local now, wall = string.match(redis.call('GET', '${CLOCK_KEY}'), '(%S+) (%S+)')
now, wall = tonumber(now), tonumber(wall)
local server = redis
local redis = {
  call = function(name, key, ...)
    if name == 'SET' then return server.call('SET', key, (...)) end
    if name == 'PEXPIRE' then return 1 end
    return server.call(name, key, ...)
  end,
}
`

/** A store in Redis by the clock of a test, for suites that say what time it is with every call. */
export class ClockedStore implements CounterStore {
  readonly #store: CounterStore
  readonly #setKey: (key: string, value: string) => Promise<unknown>

  constructor(store: CounterStore, setKey: (key: string, value: string) => Promise<unknown>) {
    this.#store = store
    this.#setKey = setKey
  }

  open(spec: CounterSpec): Counter {
    return this.#store.open(spec)
  }

  async takeAll(charges: Charges, nowMs: number, wallMs: number): Promise<Outcome> {
    await this.#setTime(nowMs, wallMs)
    return this.#store.takeAll(charges, nowMs, wallMs)
  }

  async checkAll(charges: Charges, nowMs: number, wallMs: number): Promise<Outcome> {
    await this.#setTime(nowMs, wallMs)
    return this.#store.checkAll(charges, nowMs, wallMs)
  }

  async settleAll(charges: Charges, nowMs: number, wallMs: number): Promise<void> {
    await this.#setTime(nowMs, wallMs)
    charges.takenFrom = 'shared'
    await this.#store.settleAll(charges, nowMs, wallMs)
  }

  stats(): StoreStats {
    return this.#store.stats()
  }

  #setTime(nowMs: number, wallMs: number): Promise<unknown> {
    return this.#setKey(CLOCK_KEY, `${nowMs} ${wallMs}`)
  }
}
