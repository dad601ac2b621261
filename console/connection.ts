import { signal } from '@preact/signals'

/** Whether the last request got no response. Data on the page is then as old as `lastResponseMs` says. */
export const isLost = signal(false)
/** When edge last responded, by this browser's clock; 0 before the first response. */
export const lastResponseMs = signal(0)

export function noteResponse(): void {
  lastResponseMs.value = Date.now()
  isLost.value = false
}

export function noteLost(): void {
  isLost.value = true
}
