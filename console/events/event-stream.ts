import { effect, signal } from '@preact/signals'
import { messageOf, openStream } from '../api.ts'
import { isLost } from '../connection.ts'
import { EventLines, type LogEvent } from './event-lines.ts'
import { eventLog, NOT_CONNECTED } from './event-log.ts'

const FIRST_WAIT_MS = 1000
const MAX_WAIT_MS = 10_000
/** edge sends something every 15 seconds. */
const MAX_SILENCE_MS = 40_000
/** After this much work, the browser gets time to draw and to respond. */
const SLICE_MS = 10

/** As long as edge keeps events. */
const PATH = 'events?since=1h'

/** Whether the stream of events is open and, if not, why. */
export const streamState = signal<{ readonly isOpen: boolean; readonly problem?: string }>({ isOpen: false })

let lostAt: string | undefined
/** Number of the last event that this page has got; the stream continues after it. */
let lastId: number | undefined

/** Reads the events of the last hour and then those that happen, and reconnects whenever the stream ends. Returns a function that stops it. */
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
  lastId = undefined
  eventLog.clear()
}

async function follow(stop: AbortSignal): Promise<void> {
  for (let waitMs = FIRST_WAIT_MS; !stop.aborted; waitMs = Math.min(waitMs * 2, MAX_WAIT_MS)) {
    const silence = new AbortController()
    try {
      const headers = lastId === undefined ? {} : { 'Last-Event-ID': String(lastId) }
      const body = await openStream(PATH, headers, AbortSignal.any([stop, silence.signal]))
      waitMs = FIRST_WAIT_MS
      streamState.value = { isOpen: true }
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
    for (const { data, id } of lines.push(decoder.decode(value, { stream: true }))) {
      if (id !== undefined) noteNumber(id)
      eventLog.add(JSON.parse(data) as LogEvent)
    }
    if (performance.now() < sliceEndMs) continue
    await new Promise((resolve) => setTimeout(resolve))
    sliceEndMs = performance.now() + SLICE_MS
  }
}

/** edge numbers its events one by one, so that a number that was skipped while the page was not connected is an event that it will not get. */
function noteNumber(id: number): void {
  if (lostAt !== undefined && lastId !== undefined && id !== lastId + 1) {
    const msg = 'this page was not connected, and some of what happened meanwhile is not listed'
    eventLog.add({ event: NOT_CONNECTED, level: 'warn', time: new Date().toISOString(), since: lostAt, msg })
  }
  lostAt = undefined
  lastId = id
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
