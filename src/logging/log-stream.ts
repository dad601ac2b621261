import { writeSync } from 'node:fs'

/**
 * Writes log lines at once. A log that cannot be written (disk full, reader gone or asleep) is no reason to stop
 * serving or to wait: the line is lost, and the next one that gets through says how many were. A pipe must not block
 * for that: naming `process.stderr` makes Node put its descriptor into that mode.
 */
export class LogStream {
  readonly #fd: number
  #lostLines = 0
  /** A line broke off in the middle: the next one must not continue it. */
  #isInLine = false

  constructor(fd: number) {
    this.#fd = fd
  }

  write(line: string): void {
    const notice = this.#lostLines === 0 ? '' : lostNotice(this.#lostLines)
    const bytes = Buffer.from(`${this.#isInLine ? '\n' : ''}${notice}${line}`)
    let written = 0
    try {
      while (written < bytes.length) written += writeSync(this.#fd, bytes, written)
      this.#lostLines = 0
      this.#isInLine = false
    } catch {
      this.#lostLines++
      this.#isInLine ||= written > 0
    }
  }
}

function lostNotice(lines: number): string {
  return `${JSON.stringify({ level: 'warn', event: 'log_lines_lost', lines, msg: 'the log could not be written' })}\n`
}
