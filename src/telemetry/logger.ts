import { type Logger, pino } from 'pino'
import { LogStream } from './log-stream.ts'

const STDERR = 2

/** Lines of JSON on stderr, from whichever thread, each written at once. */
export function newLogger(level: string, unfinished: SharedArrayBuffer): Logger {
  const formatters = { level: (label: string) => ({ level: label }) }
  return pino({ level, base: null, timestamp: pino.stdTimeFunctions.isoTime, formatters }, new LogStream(STDERR, unfinished))
}
