import type { WriteStream } from 'node:tty'
import { durationText, numberText } from '../text/text-table.ts'

const INTERVAL_MS = 200
const BAR_WIDTH = 24
const CLEAR_LINE = '\r\x1b[K'

export interface Progress {
  /** Bytes as on disk, that is, before decompression. */
  readonly bytesRead: number
  readonly requests: number
}

/** Shows the progress of a replay in one line of a terminal, and draws nothing elsewhere. `totalBytes` is undefined if it is unknown. */
export class ProgressBar {
  readonly #terminal: Pick<WriteStream, 'isTTY' | 'write' | 'columns'>
  readonly #totalBytes: number | undefined
  readonly #look: () => Progress
  readonly #startMs = performance.now()
  #timer: NodeJS.Timeout | undefined

  constructor(terminal: Pick<WriteStream, 'isTTY' | 'write' | 'columns'>, totalBytes: number | undefined, look: () => Progress) {
    this.#terminal = terminal
    this.#totalBytes = totalBytes
    this.#look = look
  }

  start(intervalMs = INTERVAL_MS): void {
    if (this.#terminal.isTTY) this.#timer = setInterval(() => this.#draw(), intervalMs)
  }

  /** Clears the line. */
  stop(): void {
    if (this.#timer === undefined) return
    clearInterval(this.#timer)
    this.#timer = undefined
    this.#terminal.write(CLEAR_LINE)
  }

  #draw(): void {
    const text = progressText(this.#look(), this.#totalBytes, performance.now() - this.#startMs)
    this.#terminal.write(`${CLEAR_LINE}${text.slice(0, Math.max(1, (this.#terminal.columns || 80) - 1))}`)
  }
}

export function progressText({ bytesRead, requests }: Progress, totalBytes: number | undefined, elapsedMs: number): string {
  const rate = `${numberText(requests)} requests, ${numberText(Math.round(requests / Math.max(elapsedMs / 1000, 0.001)))}/s`
  if (totalBytes === undefined || totalBytes === 0) return `${mib(bytesRead)}  ${rate}`
  const share = Math.min(1, bytesRead / totalBytes)
  const filled = Math.round(share * BAR_WIDTH)
  const left = share > 0 ? `  ${durationText((elapsedMs / 1000) * (1 / share - 1))} left` : ''
  return `[${'='.repeat(filled)}${' '.repeat(BAR_WIDTH - filled)}] ${Math.floor(share * 100)} % of ${mib(totalBytes)}  ${rate}${left}`
}

function mib(bytes: number): string {
  return `${(bytes / 1024 ** 2).toFixed(1)} MiB`
}
