import type { ChargeResults, Charges, Counter, Taken } from '../../../src/store/charges.ts'
import type { CounterLocator } from '../../../src/store/counter-locator.ts'
import type { CounterSpec, CounterStore, OnWarning, Purpose, StoreStats } from '../../../src/store/counter-store.ts'
import { MapStore } from './map-store.ts'

/** A remote store: the test decides when each call is done, in any order. */
export class AsyncStore implements CounterStore {
  readonly #store = new MapStore()
  readonly #waiting: (() => void)[] = []

  open(spec: CounterSpec): Counter {
    return this.#store.open(spec)
  }

  takeAll(charges: Charges, results: ChargeResults, nowMs: number, wallMs: number, purpose?: Purpose): Promise<boolean> {
    return new Promise((resolve) => {
      this.#waiting.push(() => resolve(this.#store.takeAll(charges, results, nowMs, wallMs, purpose)))
    })
  }

  checkAll(charges: Charges, results: ChargeResults, nowMs: number, wallMs: number): Promise<boolean> {
    return new Promise((resolve) => {
      this.#waiting.push(() => resolve(this.#store.checkAll(charges, results, nowMs, wallMs)))
    })
  }

  settleAll(charges: Charges, taken: Taken, nowMs: number, wallMs: number, onWarning?: OnWarning): Promise<void> {
    return new Promise((resolve) => {
      this.#waiting.push(() => resolve(this.#store.settleAll(charges, taken, nowMs, wallMs, onWarning)))
    })
  }

  renewAll(charges: Charges, taken: Taken, nowMs: number, wallMs: number): Promise<Taken> {
    return new Promise((resolve) => {
      this.#waiting.push(() => resolve(this.#store.renewAll(charges, taken, nowMs, wallMs)))
    })
  }

  locatorsOf(charges: Charges, taken: Taken): CounterLocator[] {
    return this.#store.locatorsOf(charges, taken)
  }

  settleLocated(...settlement: Parameters<CounterStore['settleLocated']>): Promise<boolean> {
    return new Promise((resolve) => {
      this.#waiting.push(() => resolve(this.#store.settleLocated(...settlement)))
    })
  }

  renewLocated(...renewal: Parameters<CounterStore['renewLocated']>): Promise<Taken> {
    return new Promise((resolve) => {
      this.#waiting.push(() => resolve(this.#store.renewLocated(...renewal)))
    })
  }

  resetAll(charges: Charges, nowMs: number, wallMs: number): Promise<void> {
    return new Promise((resolve) => {
      this.#waiting.push(() => resolve(this.#store.resetAll(charges, nowMs, wallMs)))
    })
  }

  stats(): StoreStats {
    return this.#store.stats()
  }

  /** How many takes wait for an answer. */
  get waiting(): number {
    return this.#waiting.length
  }

  /** Completes one of them, and lets its decision continue. */
  async answer(index = 0): Promise<void> {
    this.#waiting.splice(index, 1)[0]!()
    await turn()
  }

  /** Completes them, and later ones, until none is pending. `choose` picks one of so many. */
  async answerAll(choose: (count: number) => number = () => 0): Promise<void> {
    while (this.#waiting.length > 0) await this.answer(choose(this.#waiting.length))
  }
}

/** All promises that can go on have gone on. */
function turn(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve)
  })
}
