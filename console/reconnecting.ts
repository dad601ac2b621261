import { effect, signal } from '@preact/signals'
import { ask } from './api.ts'
import { isVisible } from './clock.ts'
import { isLost } from './connection.ts'

const FIRST_WAIT_MS = 1000
const MAX_WAIT_MS = 10_000

/** Whether a request is under way that checks the connection. */
export const isRetrying = signal(false)

let waitMs = FIRST_WAIT_MS
let timer: ReturnType<typeof setTimeout> | undefined

/** Asks until edge responds again, less and less often, while the page is visible. All other requests wait for that. */
export function keepConnected(): void {
  effect(() => {
    clearTimeout(timer)
    if (!isLost.value) waitMs = FIRST_WAIT_MS
    else if (isVisible.value) retryLater()
  })
  addEventListener('online', () => void retryNow())
}

export async function retryNow(): Promise<void> {
  if (!isLost.peek() || isRetrying.peek()) return
  clearTimeout(timer)
  isRetrying.value = true
  try {
    await ask('GET', 'status')
  } catch {
    // Any response, even an error, shows that the connection is back, and the next request will show what is wrong.
  } finally {
    isRetrying.value = false
    if (isLost.peek()) retryLater()
  }
}

function retryLater(): void {
  clearTimeout(timer)
  timer = setTimeout(() => void retryNow(), waitMs)
  waitMs = Math.min(waitMs * 2, MAX_WAIT_MS)
}
