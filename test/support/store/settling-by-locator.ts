import type { CounterStore } from '../../../src/store/counter-store.ts'

/** The same store, whose settlements and renewals find their counters by locators: they know no values. */
export function settlingByLocator(store: CounterStore): CounterStore {
  return {
    open: (spec) => store.open(spec),
    takeAll: (...take) => store.takeAll(...take),
    checkAll: (...check) => store.checkAll(...check),
    locatorsOf: (charges, taken) => store.locatorsOf(charges, taken),
    renewLocated: (...renewal) => store.renewLocated(...renewal),
    settleLocated: (...settlement) => store.settleLocated(...settlement),
    resetAll: (...reset) => store.resetAll(...reset),
    stats: () => store.stats(),
    renewAll: (charges, taken, nowMs, wallMs) => {
      charges.locators = store.locatorsOf(charges, taken)
      charges.dropValues(0)
      return store.renewLocated(charges, 'own', taken, nowMs, wallMs)
    },
    settleAll: async (charges, taken, nowMs, wallMs) => {
      charges.locators = store.locatorsOf(charges, taken)
      charges.dropValues(0)
      await store.settleLocated(charges, 'own', taken, nowMs, wallMs)
    },
  }
}
