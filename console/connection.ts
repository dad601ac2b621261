import { signal } from '@preact/signals'

/** Whether the last request got no response. The data on the page then dates from `lastResponseMs`. */
export const isLost = signal(false)
/** Time of edge's last response, by this browser's clock; 0 before the first response. */
export const lastResponseMs = signal(0)

export function noteResponse(): void {
  lastResponseMs.value = Date.now()
  isLost.value = false
}

export function noteLost(): void {
  isLost.value = true
}
