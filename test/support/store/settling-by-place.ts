import type { CounterStore } from '../../../src/store/counter-store.ts'

/** The same store, whose settlements and renewals find their counters by place: they know no values. */
export function settlingByPlace(store: CounterStore): CounterStore {
  return {
    open: (spec) => store.open(spec),
    takeAll: (...take) => store.takeAll(...take),
    checkAll: (...check) => store.checkAll(...check),
    placesOf: (charges, taken) => store.placesOf(charges, taken),
    renewPlaced: (...renewal) => store.renewPlaced(...renewal),
    settlePlaced: (...settlement) => store.settlePlaced(...settlement),
    resetAll: (...reset) => store.resetAll(...reset),
    stats: () => store.stats(),
    renewAll: (charges, taken, nowMs, wallMs) => {
      charges.places = store.placesOf(charges, taken)
      charges.dropValues(0)
      return store.renewPlaced(charges, 'own', taken, nowMs, wallMs)
    },
    settleAll: async (charges, taken, nowMs, wallMs) => {
      charges.places = store.placesOf(charges, taken)
      charges.dropValues(0)
      await store.settlePlaced(charges, 'own', taken, nowMs, wallMs)
    },
  }
}
