import { writeSync } from 'node:fs'
import { type Logger, pino } from 'pino'
import { printableJson } from '../text/printable.ts'
import { EventTap } from './events/published-events.ts'

const STDERR = 2

export interface Log {
  readonly logger: Logger
  /** Undefined if nobody can watch events. */
  readonly tap: EventTap | undefined
}

/** Opens the log: lines of JSON on stderr, from any thread, each written at once. */
export function openLog(level: string, hasEvents: boolean, unfinished: SharedArrayBuffer): Log {
  const formatters = { level: (label: string) => ({ level: label }) }
  const options = { base: null, timestamp: pino.stdTimeFunctions.isoTime, formatters }
  const stream = new LogStream(STDERR, unfinished)
  if (!hasEvents) return { logger: pino({ ...options, level }, stream), tap: undefined }
  const tap = new EventTap(stream, level)
  return { logger: pino({ ...options, level: tap.level }, tap), tap }
}

/**
 * Writes log lines at once. If the log cannot be written (disk full, reader gone or asleep), serving must neither stop nor wait: the line is
 * lost, and the next one that is written says how many were lost. For this a pipe must not block, so `edge serve` accesses `process.stderr`,
 * which makes Node set its descriptor to non-blocking. Control characters that a terminal would obey are escaped, whoever sent them.
 */
export class LogStream {
  readonly #fd: number
  #lostLines = 0
  /** Not 0 if a line broke off in the middle, whichever thread wrote it. The next line must not continue it. */
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

/** Creates the flag that all threads writing to one descriptor share. */
export function newPartialLineFlag(): SharedArrayBuffer {
  return new SharedArrayBuffer(4)
}

function lostNotice(lines: number): string {
  const time = new Date().toISOString()
  return `${JSON.stringify({ level: 'warn', time, event: 'log_lines_lost', lines, msg: 'the log could not be written' })}\n`
}
