import { computed, signal } from '@preact/signals'

const TICK_MS = 1000
/** The Date field has whole seconds, so smaller differences are ignored. */
const MIN_OFFSET_MS = 2000

let offsetMs = 0

/** Time by edge's clock in milliseconds, updated once a second while the page is visible. */
export const nowMs = signal(Date.now())
/** Some time of the operator's own day. Unlike `nowMs` it changes only at midnight, so what only needs the day is not drawn again every second. */
export const today = computed(() => new Date(nowMs.value).setHours(0, 0, 0, 0))
export const isVisible = signal(document.visibilityState === 'visible')

setInterval(tick, TICK_MS)
document.addEventListener('visibilitychange', () => {
  isVisible.value = document.visibilityState === 'visible'
  tick()
})

/** Reads the Date field of a response. Countdowns use edge's clock, not that of the operator's computer. */
export function noteServerTime(date: string | null): void {
  const found = Date.parse(date ?? '') - Date.now()
  if (!Number.isNaN(found)) offsetMs = Math.abs(found) < MIN_OFFSET_MS ? 0 : found
}

function tick(): void {
  if (isVisible.value) nowMs.value = Date.now() + offsetMs
}
