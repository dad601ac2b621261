import { writeSync } from 'node:fs'
import { type Logger, pino } from 'pino'
import { printableJson } from '../text/formats.ts'
import { EventTap } from './events/published-events.ts'

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

/**
 * Writes log lines at once. A log that cannot be written (disk full, reader gone or asleep) is no reason to stop
 * serving or to wait: the line is lost, and the next one that is written says how many were. A pipe must not block
 * for that: accessing `process.stderr` makes Node set its descriptor to non-blocking. What a terminal would obey is escaped, whoever sent it.
 */
export class LogStream {
  readonly #fd: number
  #lostLines = 0
  /** Not 0 when a line broke off in the middle, whichever thread wrote it: the next one must not continue it. */
  readonly #partialLine: Int32Array

  constructor(fd: number, partialLine = newPartialLineFlag()) {
    this.#fd = fd
    this.#partialLine = new Int32Array(partialLine)
  }

  write(line: string): void {
    const notice = this.#lostLines === 0 ? '' : lostNotice(this.#lostLines)
    const bytes = Buffer.from(`${Atomics.load(this.#partialLine, 0) === 0 ? '' : '\n'}${notice}${printableJson(line)}`)
    let written = 0
    try {
      while (written < bytes.length) written += writeSync(this.#fd, bytes, written)
      this.#lostLines = 0
      Atomics.store(this.#partialLine, 0, 0)
    } catch {
      this.#lostLines++
      if (written > 0) Atomics.store(this.#partialLine, 0, 1)
    }
  }
}

/** To be shared by all threads that write to one descriptor. */
export function newPartialLineFlag(): SharedArrayBuffer {
  return new SharedArrayBuffer(4)
}

function lostNotice(lines: number): string {
  const time = new Date().toISOString()
  return `${JSON.stringify({ level: 'warn', time, event: 'log_lines_lost', lines, msg: 'the log could not be written' })}\n`
}
