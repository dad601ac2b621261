import { effect, signal } from '@preact/signals'
import { messageOf, openStream } from '../api.ts'
import { isLost } from '../connection.ts'
import { EventLines } from './event-lines.ts'
import { eventLog, type LogEvent, NOT_CONNECTED } from './event-log.ts'

const FIRST_WAIT_MS = 1000
const MAX_WAIT_MS = 10_000
/** edge sends something every 15 seconds. */
const MAX_SILENCE_MS = 40_000
/** After this much work, the browser gets time to draw and to respond. */
const SLICE_MS = 10

/** Whether the stream of events is open and, if not, why. */
export const streamState = signal<{ readonly isOpen: boolean; readonly problem?: string }>({ isOpen: false })

let lostAt: string | undefined

/** Follows `GET events`, and reconnects whenever it ends. Returns a function that stops it. */
export function followEvents(): () => void {
  const stop = new AbortController()
  void follow(stop.signal)
  return () => {
    stop.abort()
    noteEnd()
  }
}

export function forgetEvents(): void {
  lostAt = undefined
  eventLog.clear()
}

async function follow(stop: AbortSignal): Promise<void> {
  for (let waitMs = FIRST_WAIT_MS; !stop.aborted; waitMs = Math.min(waitMs * 2, MAX_WAIT_MS)) {
    const silence = new AbortController()
    try {
      const body = await openStream('events', AbortSignal.any([stop, silence.signal]))
      waitMs = FIRST_WAIT_MS
      noteOpen()
      await read(body, () => silence.abort())
      noteEnd()
    } catch (error) {
      noteEnd(messageOf(error))
    }
    await pause(waitMs, stop)
  }
}

async function read(body: ReadableStream<Uint8Array>, onSilence: () => void): Promise<void> {
  const lines = new EventLines()
  const decoder = new TextDecoder()
  const reader = body.getReader()
  let sliceEndMs = performance.now() + SLICE_MS
  for (;;) {
    const timer = setTimeout(onSilence, MAX_SILENCE_MS)
    const { done, value } = await reader.read().finally(() => clearTimeout(timer))
    if (done) return
    for (const data of lines.push(decoder.decode(value, { stream: true }))) eventLog.add(JSON.parse(data) as LogEvent)
    if (performance.now() < sliceEndMs) continue
    await new Promise((resolve) => setTimeout(resolve))
    sliceEndMs = performance.now() + SLICE_MS
  }
}

function noteOpen(): void {
  streamState.value = { isOpen: true }
  if (lostAt === undefined) return
  const msg = 'this page was not connected, and what happened meanwhile is not listed'
  eventLog.add({ event: NOT_CONNECTED, level: 'warn', time: new Date().toISOString(), since: lostAt, msg })
  lostAt = undefined
}

function noteEnd(problem = 'the stream has ended'): void {
  if (streamState.value.isOpen) lostAt = new Date().toISOString()
  streamState.value = { isOpen: false, problem }
}

/** Ends early if edge responds again or if the stream is no longer wanted. */
function pause(ms: number, stop: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    let wasLost = isLost.peek()
    const end = (): void => {
      clearTimeout(timer)
      dispose()
      resolve()
    }
    const timer = setTimeout(end, ms)
    const dispose = effect(() => {
      if (wasLost && !isLost.value) queueMicrotask(end)
      wasLost = isLost.value
    })
    stop.addEventListener('abort', end)
  })
}
