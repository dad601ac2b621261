import type { LoggedRequest } from '../logs/logged-request.ts'
import type { LogSource } from './log-source.ts'
import { TimeHeap } from './time-heap.ts'

/** Passes on the requests of all logs in the order of their times, and of the logs where times are equal. Waits for those that take longer. */
export async function mergeLogs(sources: readonly LogSource[], onRequest: (request: LoggedRequest) => void | Promise<void>): Promise<void> {
  const heap = new TimeHeap<LogSource>()
  for (const source of sources) {
    await source.fill()
    if (source.next !== undefined) heap.push(source)
  }
  for (let source = heap.root; source !== undefined; source = heap.root) {
    const pending = onRequest(source.next!)
    if (pending !== undefined) await pending
    source.removeNext()
    if (!source.isReady) await source.fill()
    if (source.next === undefined) heap.removeRoot()
    else heap.settleRoot()
  }
}
