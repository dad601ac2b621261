import { type Logger, pino } from 'pino'
import { EventTap } from './events/event-tap.ts'
import { LogStream } from './log-stream.ts'

const STDERR = 2

export interface Log {
  readonly logger: Logger
  /** Undefined where nobody can watch events. */
  readonly tap: EventTap | undefined
}

/** Lines of JSON on stderr, from whichever thread, each written at once. */
export function openLog(level: string, hasEvents: boolean, unfinished: SharedArrayBuffer): Log {
  const formatters = { level: (label: string) => ({ level: label }) }
  const options = { base: null, timestamp: pino.stdTimeFunctions.isoTime, formatters }
  const stream = new LogStream(STDERR, unfinished)
  if (!hasEvents) return { logger: pino({ ...options, level }, stream), tap: undefined }
  const tap = new EventTap(stream, level)
  return { logger: pino({ ...options, level: tap.level }, tap), tap }
}
